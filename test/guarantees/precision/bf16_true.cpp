// BF16 weights without master weights: stochastic rounding is unbiased, updates equal FP32's, and
// state and parameters are restored to the bit.
#include "test.hpp"

#include "bf16_numbers.hpp"
#include "guarantees/recipes/nets.hpp"

namespace guarantees::bf16_true {

using bf16::unit;
using ikebana::detail::RoundingKey;
using True = Precision<BF16True>;

Language model() { return language(); }
Language low_model() {
  Language m = language();
  for (auto& p : m->parameters())
    if (p.dim() >= 2) p.set_data(p.to(at::kBFloat16));
  return m;
}

/// Makes the equivalent loop: FP32 scratch memory, one fused call per parameter, one rounding.
Trace by_hand(const std::vector<Rows>& data, std::int64_t parts) {
  Language net = low_model();
  // Master weights are numbered unit by unit: the root's own, then the layers'.
  std::vector<at::Tensor> all;
  for (bool layers : {false, true})
    for (auto& item : net->named_parameters())
      if (item.key().starts_with("layer") == layers) all.push_back(item.value());
  Tensors m, v;
  for (const auto& p : all) m.push_back(at::zeros(p.sizes())), v.push_back(at::zeros(p.sizes()));
  hand::Products products((torch::manual_seed(11), at::kBFloat16));
  Trace trace;
  at::Tensor step = at::zeros({});
  for (std::size_t s = 0; s < data.size(); ++s) {
    auto count = static_cast<double>(data[s].target.numel());
    at::Tensor total;
    for (const auto& part : split(data[s], parts)) {
      at::Tensor sum;
      {
        hand::Autocast autocast(at::kBFloat16);
        sum = net->loss(plain, part).sum;
      }
      sum.div(count).backward();
      total = total.defined() ? total + sum.detach() : sum.detach();
    }
    trace.push_back(total / count);
    torch::NoGradGuard no_grad;
    step += 1;
    for (std::size_t i = 0; i < all.size(); ++i) {
      at::Tensor value = all[i].to(at::kFloat), gradient = all[i].grad().to(at::kFloat);
      at::_fused_adamw_({value}, {gradient}, {m[i]}, {v[i]}, {}, {step}, 1e-2, 0.9, 0.999, 1e-2,
                        1e-8, false, false);
      if (all[i].dim() < 2) all[i].copy_(value);
      else ikebana::detail::round_on_cpu(all[i], value, RoundingKey::of(0, std::int64_t(s), i));
    }
    net->zero_grad();
  }
  for (auto& p : parameters_of(net)) trace.push_back(p);
  trace.push_back(torch::rand({4}));
  return trace;
}
template <class... Words>
Trace by_recipe() {
  return trained(Trainer<Language, AdamW, True, Words...>(model(), AdamW{.lr = 1e-2}), texts(5));
}

/// One weight matrix whose gradient is what the batch holds.
struct PulledImpl : torch::nn::Module {
  at::Tensor w;
  explicit PulledImpl(at::Tensor start) { w = register_parameter("w", std::move(start)); }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    return {(w * batch.input).sum(), 1};
  }
};
TORCH_MODULE(Pulled);
Rows pull(const at::Tensor& gradient) { return {gradient, at::ones({gradient.size(0)})}; }

TEST_CASE("an update of less than half a unit in the last place moves weights on average") {
  const std::int64_t n = 4096;
  const int steps = 20;
  Pulled chance(at::ones({64, 64})), nearest(at::ones({64, 64}, at::kBFloat16));
  Trainer trainer{chance, SGD{.lr = 1e-4}, True{}};
  torch::optim::SGD twin(nearest->parameters(), 1e-4);
  for (int i = 0; i < steps; ++i) {
    trainer.step(pull(at::ones({64, 64})));
    twin.zero_grad();
    nearest->loss(plain, pull(at::ones({64, 64}))).sum.backward();
    twin.step();
  }
  CHECK(nearest->w.eq(1).all().item<bool>());  // does not move
  double unit = std::pow(2.0, -8), moves = steps * 1e-4 / unit;
  double mean = chance->w.to(at::kDouble).mean().item<double>();
  CHECK(std::abs(mean - (1 - steps * 1e-4)) < 5 * unit * std::sqrt(moves / n));
}

template <class Optimizer>
void stays_next_to_double(Optimizer optimizer, auto&& update) {
  torch::manual_seed(2);
  Pulled pulled(torch::randn({32, 16}));
  Trainer trainer{pulled, optimizer, True{}};
  at::Tensor m = at::zeros({32, 16}, at::kDouble), v = m.clone();
  for (int step = 1; step <= 10; ++step) {
    at::Tensor w = pulled->w.detach().to(at::kDouble);
    at::Tensor g = torch::randn({32, 16}).to(at::kBFloat16);
    update(w, g.to(at::kDouble), m, v, step);
    trainer.step(pull(g));
    at::Tensor now = pulled->w.detach().to(at::kDouble);
    CHECK(((now - w).abs() <= unit(w.to(at::kFloat)).abs() * 1.0001).all().template item<bool>());
    CHECK((now - w).abs().max().template item<double>() > 0);
  }
}

TEST_CASE("weights are always one of the two BF16 neighbours of the update in double precision") {
  stays_next_to_double(SGD{.lr = 0.1, .momentum = 0.9},
                       [](auto& w, const auto& g, auto& m, auto&, int step) {
                         m = step == 1 ? g : 0.9 * m + g;
                         w -= 0.1 * m;
                       });
  auto adam = [](double decoupled, double coupled) {
    return [=](at::Tensor& w, at::Tensor g, at::Tensor& m, at::Tensor& v, int step) {
      w *= 1 - 1e-2 * decoupled;
      g = g + coupled * w;
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      at::Tensor size = (v / (1 - std::pow(0.999, step))).sqrt() + 1e-8;
      w -= 1e-2 * (m / (1 - std::pow(0.9, step))) / size;
    };
  };
  stays_next_to_double(AdamW{.lr = 1e-2, .weight_decay = 0.1}, adam(0.1, 0));
  stays_next_to_double(Adam{.lr = 1e-2, .weight_decay = 0.1}, adam(0, 0.1));
}

TEST_CASE("BF16 without master weights equals the loop written by hand") {
  auto once = by_hand(texts(5), 1);
  CHECK(moved(once, 5));
  CHECK(test::same_bits(by_recipe<>(), once));
  CHECK(test::same_bits(by_recipe<Checkpoint<Full>>(), once));
  CHECK(test::same_bits(by_recipe<Accumulate<4>>(), by_hand(texts(5), 4)));
}

TEST_CASE("a resumed run rounds exactly as the uninterrupted run") {
  auto data = texts(4);
  Trainer<Language, AdamW, True> whole(model(), True{.seed = 5});
  for (int i : {0, 1}) whole.step(data[i]);
  auto state = whole.state();
  Trace straight;
  for (int i : {2, 3}) straight.push_back(whole.step(data[i]).mean());
  Trainer<Language, AdamW, True> resumed(model());
  resumed.step(data[3]);
  resumed.restore(state);
  for (int i : {2, 3}) CHECK(test::same_bits(resumed.step(data[i]).mean(), straight[i - 2]));
  CHECK(same_state(resumed.state(), whole.state()));
  Trainer<Language, AdamW, True> other(model(), True{.seed = 6});
  for (int i : {0, 1}) other.step(data[i]);
  CHECK_FALSE(test::same_bits(other.state().at("embed.weight"), state.at("embed.weight")));
}

TEST_CASE("a step that is rejected or undone changes no bit, and the next step rounds the same") {
  using Clipped = Trainer<Language, AdamW, True, ClipGradNorm>;
  auto data = texts(3);
  Clipped trainer(model(), ClipGradNorm{.error_if_nonfinite = false});
  trainer.step(data[0]);
  auto weights = [&] { return parameters_of(trainer.model()); };
  auto before = weights();
  auto hook = trainer.model()->embed->weight.register_hook(
      [](const at::Tensor& g) { return g * std::numeric_limits<double>::infinity(); });
  CHECK(trainer.step(data[1]).skipped());
  trainer.model()->embed->weight.remove_hook(hook);
  CHECK(test::same_bits(weights(), before));
  auto state = trainer.state();
  trainer.get<AdamW>().lr = -1;
  CHECK_THROWS_AS(trainer.step(data[1]), BadValue);
  trainer.get<AdamW>().lr = 1e-3;
  trainer.restore(state);  // also restores the generators, so that the step draws the same numbers
  trainer.step(data[2]);
  auto after = weights();
  trainer.restore(state);
  trainer.step(data[2]);
  CHECK(test::same_bits(weights(), after));
}

TEST_CASE("parameters are BF16 while the trainer exists, and are restored with the same values") {
  Language net = model();
  Tensors last;
  {
    Trainer<Language, AdamW, True> trainer(net, True{.keep_fp32 = named("*norm*")});
    trainer.step(texts(1)[0]);
    for (auto& item : net->named_parameters()) {
      bool kept = item.key().find("norm") != std::string::npos;
      CHECK((item.value().scalar_type() == (kept ? at::kFloat : at::kBFloat16)));
      last.push_back(item.value().detach().to(at::kFloat));
    }
    for (const auto& [name, t] : trainer.state())
      if (name.find("exp_avg") != std::string::npos) CHECK((t.scalar_type() == at::kFloat));
  }
  CHECK(test::same_bits(parameters_of(net), last));
  auto bad = [&] {
    Trainer<Language, AdamW, True>(net, AdamW{.groups = {{.match = named("nowhere")}}});
  };
  CHECK_THROWS_AS(bad(), BadValue);
  CHECK(test::same_bits(parameters_of(net), last));  // construction failed, parameters restored
}

TEST_CASE("a trainer that cannot be made, or makes no step, leaves all bits of the weights") {
  Language net = model();
  const Tensors before = parameters_of(net);
  CHECK_THROWS_AS(
      (Trainer<Language, AdamW, True>(net, AdamW{.groups = {{.match = named("nowhere")}}})),
      BadValue);
  CHECK(test::same_bits(parameters_of(net), before));
  Trainer<Language, True>{net}.evaluate(texts(1));
  CHECK(test::same_bits(parameters_of(net), before));
  Trainer<Language, True>{net}.with_full_weights([](auto& whole) {
    torch::NoGradGuard no_grad;
    for (auto& p : whole->parameters()) p.fill_(0.5);
  });
  for (const auto& p : parameters_of(net)) CHECK(p.eq(0.5).all().item<bool>());
}

TEST_CASE("a keep_fp32 without a rule is an error") {
  CHECK_THROWS_AS((Trainer<Language, True>(model(), True{.keep_fp32 = nullptr})), BadValue);
}

}  // namespace guarantees::bf16_true
