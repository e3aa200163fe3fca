// An autocast that is open around the loop changes no bit: no computation uses casts of former
// weights, the trainer's own or the program's.
#include "test.hpp"

#include <ikebana/modules/generate.hpp>
#include <ikebana/state/weights.hpp>

#include "guarantees/guarantees.hpp"

namespace guarantees::outer_autocast {

struct NetImpl : torch::nn::Module {
  using units = Units<torch::nn::Linear>;
  torch::nn::Linear in{8, 16}, out{16, 4};
  NetImpl() { register_module("in", in), register_module("out", out); }
  at::Tensor forward(const at::Tensor& x) { return out(at::tanh(in(x))); }
};
TORCH_MODULE(Net);

/// The sum of the cross entropies, unit by unit.
struct Sum {
  template <class Run>
  Loss operator()(Run& run, Net& net, const Rows& batch) const {
    const at::Tensor y = run(net->out, at::tanh(run(net->in, batch.input)));
    return {at::cross_entropy_loss(y, batch.target, {}, at::Reduction::Sum), batch.target.numel(),
            y};
  }
};

std::vector<Rows> batches() { return class_batches(6, 8, 8, 4); }

/// Returns what a program sees: the losses, evaluations, predictions and its own forwards, between
/// steps.
template <class... Policies>
Trace seen(bool outer, bool own_forward, const Policies&... policies) {
  const auto data = batches();
  const auto other = seeded([] { return torch::manual_seed(9), Net(); });
  std::optional<bridge::AutocastScope> around;
  auto own = [&](Net& net, Trace& trace) {
    const bridge::AutocastScope scope(at::kCPU, at::kBFloat16);
    if (own_forward) trace.push_back(net(data[0].input).detach());
  };
  Trainer trainer{seeded([] { return Net(); }), Sum{}, policies...};
  if (outer) around.emplace(at::kCPU, at::kBFloat16);
  Trace trace;
  StateDict first;
  for (std::size_t i = 0; i < data.size(); ++i) {
    own(trainer.model(), trace);
    trace.push_back(trainer.step(data[i]).mean());
    if (i == 0) first = trainer.state();
    own(trainer.model(), trace);
    trace.push_back(at::scalar_tensor(trainer.evaluate(data).loss, at::kDouble));
    trace.push_back(trainer.predict(data[i]));
    own(trainer.model(), trace);
    trainer.with_full_weights([&](Net& net) { own(net, trace); }, {.averaged = true});
    own(trainer.model(), trace);
  }
  trainer.restore(first);
  own(trainer.model(), trace);
  trace.push_back(trainer.step(data[1]).mean());
  trainer.replace_weights([&](Net& net) {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      net->parameters()[i].copy_(other->parameters()[i]);
  });
  own(trainer.model(), trace);
  trace.push_back(trainer.step(data[2]).mean());
  trainer.with_full_weights([&](Net& net) {
    for (const auto& p : parameters_of(net)) trace.push_back(p);
  });
  return trace;
}

/// `in_place`: the program can compute with the model itself between steps.
template <class... Policies>
void changes_nothing(const std::string& what, bool in_place, const Policies&... policies) {
  for (const bool own_forward : {false, true}) {
    if (own_forward && !in_place) continue;
    CAPTURE(what);
    CAPTURE(own_forward);
    CHECK(test::same_bits(seen(true, own_forward, policies...),
                          seen(false, own_forward, policies...)));
  }
}

TEST_CASE("outer autocast: no policy trains, evaluates or predicts with former weights") {
  const SGD sgd{.lr = 0.5};
  const Precision<BF16> bf16{};
  changes_nothing("SGD", true, sgd, bf16);
  changes_nothing("AdamW", true, AdamW{.lr = 0.1}, bf16);
  changes_nothing("EMA", true, sgd, bf16, EMA{.decay = 0.5});
  changes_nothing("SWA", true, sgd, bf16, SWA{});
  changes_nothing("Accumulate", true, sgd, bf16, Accumulate<2>{});
  changes_nothing("Full", true, sgd, bf16, Checkpoint<Full>{});
  changes_nothing("Selective", true, sgd, bf16, Checkpoint<Selective>{});
  changes_nothing("InBackward", true, InBackward<SGD>{sgd}, bf16);
  changes_nothing("Offload", false, sgd, bf16, Offload<CPU>{});
  changes_nothing("BF16Weights", false, sgd, Precision<BF16Weights>{});
  changes_nothing("BF16True", false, sgd, Precision<BF16True>{});
}

TEST_CASE("outer autocast: a recipe without a precision computes with its own weights, too") {
  const auto data = batches();
  auto losses = [&](bool precision) {
    Trace trace;
    auto train = [&](auto trainer) {
      for (const auto& batch : data) trace.push_back(trainer.step(batch).mean());
      trace.push_back(trainer.predict(data[0]));
    };
    if (precision) {
      train(Trainer{seeded([] { return Net(); }), Sum{}, SGD{.lr = 0.5}, Precision<BF16>{}});
    } else {
      const bridge::AutocastScope scope(at::kCPU, at::kBFloat16);
      train(Trainer{seeded([] { return Net(); }), Sum{}, SGD{.lr = 0.5}});
    }
    return trace;
  };
  CHECK(test::same_bits(losses(false), losses(true)));
}

TEST_CASE("outer autocast: casts that generate made without gradients are not trained with") {
  Net net = seeded([] { return Net(); });
  const bridge::AutocastScope scope(at::kCPU, at::kBFloat16);
  auto step = [&](const at::Tensor& tokens) {
    return net(at::one_hot(tokens, 8).to(at::kFloat)).slice(-1, 0, 4);
  };
  modules::generate(step, at::zeros({1, 1}, at::kLong), {.max_new_tokens = 2});
  net(at::ones({2, 8})).sum().backward();
  CHECK(net->in->weight.grad().defined());
}

TEST_CASE("outer autocast: the casts of other weights are made again, not lost to their graph") {
  Net net = seeded([] { return Net(); });
  const auto x = at::ones({2, 8});
  const bridge::AutocastScope scope(at::kCPU, at::kBFloat16);
  const at::Tensor before = net(x);
  Trainer trainer{Net(), Sum{}, SGD{.lr = 0.5}, Precision<BF16>{}};
  trainer.step(batches()[0]);
  const at::Tensor after = net(x);
  CHECK(test::same_bits(before, after));
  (before + after).sum().backward();
  CHECK(net->in->weight.grad().defined());
}

}  // namespace guarantees::outer_autocast
