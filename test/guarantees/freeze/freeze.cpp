// Freeze equals the loop by hand with requires_grad_(false), to the bit; frozen parameters cost no
// backward, no gradient and no state, and are restored as they were.
#include "guarantees/guarantees.hpp"

#include <ATen/record_function.h>

#include "trainer/mixed.hpp"

namespace guarantees::freeze {

using test::same_bits;

struct BodyImpl : torch::nn::Module {
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(8, 8));
  int forwards = 0;
  at::Tensor forward(at::Tensor x) { return ++forwards, at::tanh(linear(x)); }
};
TORCH_MODULE(Body);
struct TailImpl : torch::nn::Module {
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(8, 8));
  int forwards = 0;
  at::Tensor forward(at::Tensor x) { return ++forwards, at::tanh(linear(x)); }
};
TORCH_MODULE(Tail);

/// Units of two types around a trained middle.
struct NetImpl : torch::nn::Module {
  using units = Units<Body, Tail>;
  Body first = register_module("first", Body()), second = register_module("second", Body());
  torch::nn::Linear middle = register_module("middle", torch::nn::Linear(8, 8));
  Tail tail = register_module("tail", Tail());
  torch::nn::Linear head = register_module("head", torch::nn::Linear(8, 3));

  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = middle(run(second, run(first, batch.input)));
    x = head(run(tail, x));
    return {at::cross_entropy_loss(x, batch.target, {}, at::Reduction::Sum), batch.target.numel()};
  }
};
TORCH_MODULE(Net);

Net net() {
  return seeded([] { return Net(); });
}
std::vector<Rows> data() { return class_batches(4, 6, 8, 3); }

/// Returns the loop by hand: frozen, then trained by fused AdamW on the others.
Trace by_hand(Net model, const std::function<bool(const std::string&)>& frozen) {
  Tensors trained, first, second, steps;
  for (auto& item : model->named_parameters())
    if (item.value().requires_grad_(!frozen(item.key())).requires_grad())
      trained.push_back(item.value()), steps.push_back(at::zeros({}));
  for (const auto& p : trained) first.push_back(at::zeros_like(p.detach()));
  for (const auto& p : trained) second.push_back(at::zeros_like(p.detach()));
  Trace trace;
  auto batches = data();
  torch::manual_seed(11);
  for (const auto& batch : batches) {
    Loss loss = model->loss(plain, batch);
    at::Tensor mean = at::div(loss.sum, loss.count.value());
    mean.backward();
    torch::NoGradGuard no_grad;
    Tensors gradients;
    for (auto& p : trained) gradients.push_back(std::exchange(p.mutable_grad(), {}));
    at::_foreach_add_(steps, 1);
    at::_fused_adamw_(trained, gradients, first, second, {}, steps, 0.05, 0.9, 0.999, 1e-2, 1e-8,
                      false, false);
    trace.push_back(mean.detach());
  }
  for (auto& p : parameters_of(model)) trace.push_back(p);
  trace.push_back(torch::rand({4}));
  return trace;
}
bool begins(const std::string& name, const char* with) { return name.rfind(with, 0) == 0; }

TEST_CASE("Freeze: equals requires_grad_(false) by hand, to the bit, under every Checkpoint") {
  auto body = [](const std::string& n) { return begins(n, "first") || begins(n, "second"); };
  auto tail = [](const std::string& n) { return begins(n, "tail"); };
  auto both = [&](const std::string& n) { return body(n) || tail(n); };
  auto by = [](auto... words) {
    return trained(Trainer{net(), AdamW{.lr = 0.05}, words...}, data());
  };
  CHECK(moved(by_hand(net(), both), 4));
  auto same = [&](auto... words) {
    CHECK(same_bits(by(Freeze<Body>{}, words...), by_hand(net(), body)));
    CHECK(same_bits(by(Freeze<Tail>{}, words...), by_hand(net(), tail)));
    CHECK(same_bits(by(Freeze<Body, Tail>{}, words...), by_hand(net(), both)));
    Freeze<> bodies{.match = [](const std::string& n, const at::Tensor&) {
      return begins(n, "first") || begins(n, "second");
    }};
    CHECK(same_bits(by(bodies, words...), by_hand(net(), body)));
    CHECK(same_bits(by(Freeze<>{.match = named("tail.*")}, words...), by_hand(net(), tail)));
  };
  same(), same(Checkpoint<Full>{}), same(ClipGradNorm{.max_norm = 1e9});
  CHECK_FALSE(same_bits(by(Freeze<Tail>{}), by_hand(net(), body)));
}

TEST_CASE("Freeze: with master weights in another place: the same bits as frozen by hand") {
  auto run = [](auto... words) {
    auto model = net();
    if constexpr (sizeof...(words) == 1)
      for (auto& p : model->tail->parameters()) p.requires_grad_(false);
    Trainer trainer{model, AdamW{.lr = 0.05}, words...};
    for (const auto& batch : data()) trainer.step(batch);
    {
      auto gone = std::move(trainer);
    }
    return parameters_of(model);
  };
  CHECK(same_bits(run(test::mixed::Away{}, Freeze<Tail>{}), run(test::mixed::Away{})));
  CHECK(same_bits(run(test::mixed::AwayKept{}, Freeze<Tail>{}), run(test::mixed::AwayKept{})));
}

TEST_CASE(
    "Freeze: frozen parameters have no gradient and no optimizer state, and keep their bits") {
  auto model = net();
  Trainer trainer{model, AdamW{}, Freeze<Body>{}, EMA{}};
  for (const auto& batch : data()) trainer.step(batch);
  std::set<std::string> moments;
  for (const auto& [name, tensor] : trainer.state()) {
    const bool of_state =
        test::contains(name, "ikebana.AdamW.") || test::contains(name, "ikebana.trained.");
    if (of_state && test::contains(name, "linear"))
      moments.insert(name.substr(name.find('.', name.find('.') + 1) + 1));
  }
  CHECK(moments.size() == 8);  // three of AdamW, one beside its average, for the tail's two
  for (const auto& name : moments) CHECK(begins(name, "tail"));
  CHECK(same_bits(model->first->parameters(), net()->first->parameters()));
  CHECK(same_bits(model->second->parameters(), net()->second->parameters()));
  CHECK_FALSE(same_bits(model->tail->parameters(), net()->tail->parameters()));
}

/// Counts how often an operator ran in one step.
template <class Trainer>
std::map<std::string, int> operators_of(Trainer& trainer, const Rows& batch) {
  static thread_local std::map<std::string, int>* seen = nullptr;
  std::map<std::string, int> counts;
  seen = &counts;
  auto note = [](const at::RecordFunction& f) -> std::unique_ptr<at::ObserverContext> {
    ++(*seen)[f.name()];
    return nullptr;
  };
  auto handle = at::addThreadLocalCallback(at::RecordFunctionCallback(note).scopes(
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  trainer.step(batch);
  at::removeCallback(handle);
  return counts;
}

TEST_CASE("Freeze: no backward before the first trained layer, no weight gradient behind it") {
  auto batch = data()[0];
  auto backward_of = [&](auto... words) {
    Trainer trainer{net(), SGD{}, words...};
    auto seen = operators_of(trainer, batch);
    int tanh = 0;
    for (const auto& [name, times] : seen)
      if (name == "TanhBackward0") tanh += times;
    return std::pair(tanh, seen["aten::mm"]);
  };
  // Five linear layers: each takes a product for its weight, and all but the first for its input.
  CHECK(backward_of() == std::pair(3, 9));
  CHECK(backward_of(Freeze<Body>{}) == std::pair(1, 5));        // middle: weight; two whole ones
  CHECK(backward_of(Freeze<Body, Tail>{}) == std::pair(1, 4));  // no product for the tail's weight
}

TEST_CASE("Freeze: a frozen unit that needs no gradient is not recomputed") {
  auto forwards = [](auto... words) {
    auto model = net();
    Trainer trainer{model, SGD{}, Checkpoint<Full>{}, words...};
    trainer.step(data()[0]);
    return std::vector{model->first->forwards, model->second->forwards, model->tail->forwards};
  };
  CHECK(forwards() == std::vector{2, 2, 2});
  CHECK(forwards(Freeze<Body>{}) == std::vector{1, 1, 2});
  CHECK(forwards(Freeze<>{.match = named("first.*")}) == std::vector{1, 2, 2});
}

TEST_CASE("Freeze: parameters are restored, also when the trainer's construction fails") {
  auto model = net();
  model->first->linear->bias.requires_grad_(false);
  auto trains = [&] {
    std::vector<bool> all;
    for (const auto& p : model->parameters()) all.push_back(p.requires_grad());
    return all;
  };
  auto before = trains();
  {
    Trainer trainer{model, Freeze<Body>{}};
    CHECK(trains() != before);
    auto moved_to = std::move(trainer);
    moved_to.step(data()[0]);
  }
  CHECK(trains() == before);
  CHECK_THROWS(Trainer{model, Freeze<>{.match = named("*")}});
  CHECK(trains() == before);
  CHECK_THROWS(Trainer{model, Freeze<Body>{}, AdamW{.groups = {{.match = named("nowhere")}}}});
  CHECK(trains() == before);
}

TEST_CASE("Freeze: two models may share what both freeze, until the last trainer is destroyed") {
  auto body = seeded([] { return torch::nn::Linear(8, 8); });
  auto on_body = [&] { return torch::nn::Sequential(body, torch::nn::Linear(8, 3)); };
  Freeze<> shared{.match = named("0.*")};
  auto first = std::make_unique<Trainer<torch::nn::Sequential, CrossEntropyLoss, Freeze<>>>(
      on_body(), shared);
  {
    Trainer second{on_body(), CrossEntropyLoss{}, shared};
    at::Tensor before = body->weight.detach().clone();
    first->step(data()[0]), second.step(data()[0]);
    first.reset();
    CHECK_FALSE(body->weight.requires_grad());
    second.step(data()[0]);
    CHECK(same_bits(body->weight, before));
  }
  CHECK(body->weight.requires_grad());
}

TEST_CASE("Freeze: a rule that matches nothing or everything, and a missing unit, are errors") {
  auto says = [](auto model, auto value) {
    return test::message_of<Error>([&] { Trainer{model, value}; });
  };
  using test::contains;
  CHECK(contains(says(net(), Freeze<>{.match = named("nowhere.*")}), "matches no parameter"));
  CHECK(contains(says(net(), Freeze<>{}), "it has no rule"));
  CHECK(contains(says(net(), Freeze<>{.match = named("*")}), "nothing is left to train"));
  auto lonely = test::mixed::twice();
  CHECK(contains(says(lonely, Freeze<test::mixed::Frozen>{}), "nothing is left to train"));
  auto model = net();
  CHECK(contains(Trainer(model, Freeze<Tail>{}).describe(), "{2 parameters, 72 elements}"));
}

}  // namespace guarantees::freeze
