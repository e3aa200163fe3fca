// Tests linear layers in FP8. Products are compared with an emulation in double precision, and
// recomputing, stopping and evaluating change nothing.
#include "test.hpp"

#include <ATen/autocast_mode.h>
#include <deque>

#include "guarantees/recipes/hand.hpp"

namespace guarantees::fp8 {

using F8 = Precision<FP8>;

inline double error(const at::Tensor& a, const at::Tensor& b) {
  return largest_difference(a.to(at::kDouble), b.to(at::kDouble)) / b.abs().max().item<double>();
}

/// Two linear layers in units, dropout, and a norm in between.
struct MiddleImpl : torch::nn::Module {
  torch::nn::Linear w{32, 32};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({32})};
  torch::nn::Dropout drop{0.2};
  MiddleImpl() {
    register_module("w", w), register_module("norm", norm), register_module("drop", drop);
  }
  at::Tensor forward(at::Tensor x) { return x + drop(at::gelu(w(norm(x)))); }
};
TORCH_MODULE(Middle);
struct NetImpl : torch::nn::Module {
  using units = Units<Middle>;
  torch::nn::Linear in{16, 32}, out{32, 16};
  Middle first, second;
  NetImpl() {
    register_module("in", in), register_module("out", out);
    register_module("first", first), register_module("second", second);
  }
  template <class Run>
  at::Tensor forward(Run& run, at::Tensor x) {
    return out(run(second, run(first, in(x))));
  }
};
TORCH_MODULE(Net);
inline Net net() {
  return seeded([] { return Net(); });
}
inline std::vector<Rows> batches(int n = 6) { return class_batches(n, 64, 16, 16); }

/// Rounds to FP8 and back, in double precision, with the scale that fills the range.
at::Tensor emulated(const at::Tensor& x, at::ScalarType type, double most) {
  at::Tensor wide = x.detach().to(at::kFloat);
  at::Tensor scale = most / wide.abs().max();
  return (wide * scale).clamp(-most, most).to(type).to(at::kDouble) / scale.to(at::kDouble);
}
at::Tensor e4m3(const at::Tensor& x) { return emulated(x, at::kFloat8_e4m3fn, 448); }
at::Tensor e5m2(const at::Tensor& x) { return emulated(x, at::kFloat8_e5m2, 57344); }

/// A layer called in one of the ways in which models call it.
struct CalledImpl : torch::nn::Module {
  torch::nn::Linear layer{nullptr};
  bool by_function;
  CalledImpl(bool bias, bool function) : by_function(function) {
    auto options = torch::nn::LinearOptions(32, 48).bias(bias);
    layer = register_module("layer", torch::nn::Linear(options));
  }
  at::Tensor forward(at::Tensor x) {
    return by_function ? at::linear(x, layer->weight, layer->bias) : layer(x);
  }
};
TORCH_MODULE(Called);

/// `y`, and the gradients of input, weight and bias, all under FP8 with dynamic scaling.
struct Results {
  at::Tensor y, by_input, by_weight, by_bias;
};
template <class Model>
Results computed(Model model, const at::Tensor& input, const at::Tensor& slope,
                 torch::nn::Linear layer, bool fp8 = true) {
  auto hook = std::make_shared<ikebana::detail::FP8Layers>(DynamicScaling{}, UnitTable::of(model),
                                                           c10::Device(at::kCPU));
  at::Tensor x = input.detach().clone().requires_grad_(), y;
  layer->zero_grad();
  {
    hand::Autocast autocast(at::kBFloat16);
    std::optional<bridge::LinearScope> scope;
    if (fp8) scope.emplace(hook);
    y = model->forward(x);
  }
  y.backward(slope.to(y.scalar_type()));
  return {y.detach(), x.grad(), layer->weight.grad(),
          layer->bias.defined() ? layer->bias.grad() : at::Tensor()};
}
TEST_CASE("products and gradients in FP8 equal those of an emulation in double precision") {
  torch::manual_seed(4);
  const std::vector<std::int64_t> shapes[] = {{64}, {4, 16}};
  for (bool bias : {false, true})
    for (bool function : {false, true})
      for (const std::vector<std::int64_t>& rows : shapes) {
        Called model(bias, function);
        auto sizes = rows;
        sizes.push_back(32);
        at::Tensor x = torch::randn(sizes);
        sizes.back() = 48;
        at::Tensor slope = torch::randn(sizes).to(at::kBFloat16);
        auto ours = computed(model, x, slope, model->layer);
        auto &w = model->layer->weight, &b = model->layer->bias;
        at::Tensor xq = e4m3(x).view({64, 32}), wq = e4m3(w), gq = e5m2(slope).view({64, 48});
        at::Tensor y = xq.mm(wq.t());
        if (bias) y = y + b.detach().to(at::kBFloat16).to(at::kDouble);
        const double bf16 = std::pow(2.0, -8);  // results are rounded, once or twice with a bias
        CHECK(error(ours.y.view({64, 48}), y) < 2 * bf16);
        CHECK(error(ours.by_input.view({64, 32}), gq.mm(wq)) < bf16);
        CHECK(error(ours.by_weight, gq.t().mm(xq)) < 1e-5);
        if (bias) CHECK(error(ours.by_bias, slope.to(at::kDouble).view({64, 48}).sum(0)) < bf16);
        CHECK((ours.y.scalar_type() == at::kBFloat16));
        CHECK((ours.by_weight.scalar_type() == at::kFloat));
        CHECK_FALSE(
            test::same_bits(ours.y, computed(model, x, slope, model->layer, /*fp8=*/false).y));
      }
}

TEST_CASE("layers whose sizes do not fit equal those of autocast to the bit") {
  torch::manual_seed(4);
  auto same = [](auto model, at::IntArrayRef rows, torch::nn::Linear layer) {
    at::Tensor x = torch::randn(rows);
    auto sizes = rows.vec();
    sizes.back() = layer->weight.size(0);
    at::Tensor slope = torch::randn(sizes);
    auto ours = computed(model, x, slope, layer), theirs = computed(model, x, slope, layer, false);
    return test::same_bits({ours.y, ours.by_input, ours.by_weight, ours.by_bias},
                           {theirs.y, theirs.by_input, theirs.by_weight, theirs.by_bias});
  };
  torch::nn::Linear in(24, 16), out(16, 24), fits(32, 16);
  CHECK(same(in, {32, 24}, in));
  CHECK(same(out, {32, 16}, out));
  CHECK(same(fits, {30, 32}, fits));
  CHECK_FALSE(same(fits, {32, 32}, fits));
  torch::nn::Linear stranger(32, 16);
  CHECK(same(fits, {32, 32}, fits) == false);
  auto unknown = torch::nn::Sequential(in);
  at::Tensor x = torch::randn({32, 32});
  auto hook = std::make_shared<ikebana::detail::FP8Layers>(DynamicScaling{}, UnitTable::of(unknown),
                                                           c10::Device(at::kCPU));
  CHECK_FALSE(hook->linear(x, stranger->weight, stranger->bias).has_value());
}

template <class... Words>
Trace by_recipe(F8 values, Words... words) {
  return trained(Trainer{net(), AdamW{.lr = 1e-2}, CrossEntropyLoss{}, values, words...},
                 batches());
}

TEST_CASE("checkpointing changes no bit of what FP8 computes") {
  auto bf16 =
      trained(Trainer{net(), AdamW{.lr = 1e-2}, CrossEntropyLoss{}, Precision<BF16>{}}, batches());
  for (F8 values : {F8{}, F8{.scaling = DelayedScaling{.amax_history_len = 3}}}) {
    auto plain = by_recipe(values);
    CHECK(moved(plain, 6));
    CHECK_FALSE(test::same_bits(plain, bf16));
    CHECK(test::same_bits(by_recipe(values, Checkpoint<Full>{}), plain));
    CHECK(test::same_bits(by_recipe(values, Accumulate<4>{}, Checkpoint<Full>{}),
                          by_recipe(values, Accumulate<4>{})));
  }
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_CASE("what FP8 does not support is a clear error") {
  auto bad = [](DelayedScaling scaling) {
    Trainer{net(), CrossEntropyLoss{}, F8{.scaling = scaling}};
  };
  CHECK_THROWS_AS(bad({.amax_history_len = 0}), BadValue);
  CHECK_THROWS_AS(bad({.margin = NAN}), BadValue);
  auto penalty = [](auto&, Net& model, const Rows& batch) -> Loss {
    at::Tensor x = batch.input.detach().requires_grad_();
    auto slope = torch::autograd::grad({model->in(x).to(at::kFloat).sum()}, {x}, {}, true, true);
    return {slope[0].pow(2).sum(), 1};
  };
  Trainer trainer{net(), F8{}, penalty};
  CHECK(test::contains(test::message_of([&] { trainer.step(batches(1)[0]); }),
                       "gradients of gradients"));
  CHECK(test::contains((Trainer{net(), F8{}, CrossEntropyLoss{}}.describe()), "Float8"));
}

/// One layer whose three tensors are known: a column of values, the weight, and the targets.
struct WatchedImpl : torch::nn::Module {
  torch::nn::Linear layer{torch::nn::LinearOptions(16, 16).bias(false)};
  WatchedImpl() { register_module("layer", layer); }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    return {(layer(batch.input).to(at::kFloat) * batch.target).sum(), 1};
  }
};
TORCH_MODULE(Watched);

/// DelayedScaling as a plain computation.
struct PlainHistory {
  std::size_t length;
  double margin, most;
  std::deque<double> amax = {};
  double scale(double now) const {
    double largest = 0;
    for (double a : amax) largest = std::max(largest, a);
    return largest > 0 ? most / largest / std::pow(2.0, margin) : most / now;
  }
  void after(double now) {
    amax.push_back(now);
    if (amax.size() > length) amax.pop_front();
  }
};
at::Tensor through(const at::Tensor& x, double scale, at::ScalarType type, double most) {
  return (x * scale).clamp(-most, most).to(type).to(at::kDouble) / scale;
}

TEST_CASE("delayed scaling follows its history, also over microbatches and past overflows") {
  Watched model;
  F8 values{.scaling = DelayedScaling{.amax_history_len = 3, .margin = 1}};
  Trainer trainer{model, SGD{.lr = 0}, values, Accumulate<2>{}, ConstantLR{}};
  PlainHistory inputs{3, 1, 448}, gradients{3, 1, 57344};
  at::Tensor largest_seen;
  torch::manual_seed(8);
  for (double size : {1.0, 100.0, 1.0, 0.01, 0.01, 0.01, 0.01, 1e4}) {
    CAPTURE(size);
    Rows batch{torch::randn({32, 16}) * size, (torch::randn({32, 16}) * size).to(at::kBFloat16)};
    at::Tensor seen;
    auto watch = model->layer->weight.register_hook([&](const at::Tensor& g) {
      seen = seen.defined() ? seen + g : g;
      return g;
    });
    batch.target = batch.target.to(at::kFloat);
    trainer.step(batch);
    model->layer->weight.remove_hook(watch);
    at::Tensor expected = at::zeros({16, 16}, at::kDouble);
    double most_x = 0, most_g = 0;
    for (const auto& part : split(batch, 2)) {
      double x = part.input.abs().max().item<double>(), g = part.target.abs().max().item<double>();
      most_x = std::max(most_x, x), most_g = std::max(most_g, g);
      at::Tensor xq = through(part.input, inputs.scale(x), at::kFloat8_e4m3fn, 448);
      at::Tensor gq = through(part.target, gradients.scale(g), at::kFloat8_e5m2, 57344);
      expected += gq.t().mm(xq);
    }
    inputs.after(most_x), gradients.after(most_g);
    CHECK(seen.isfinite().all().item<bool>());
    CHECK(error(seen, expected) < 1e-5);
    trainer.evaluate(std::vector{Rows{batch.input * 1e6, batch.target}});  // changes nothing
  }
}

template <class T>
StateDict scales_of(T& trainer) {
  StateDict state = trainer.state();
  std::erase_if(state,
                [](const auto& item) { return !item.first.starts_with("ikebana.Precision"); });
  return state;
}

TEST_CASE("scales are saved and restored, and unchanged by a step that is undone") {
  F8 values{.scaling = DelayedScaling{.amax_history_len = 4}};
  auto make = [&] { return Trainer{net(), AdamW{.lr = 1e-2}, CrossEntropyLoss{}, values}; };
  auto data = batches();
  auto whole = make(), resumed = make();
  for (int i : {0, 1, 2}) whole.step(data[i]);
  auto state = whole.state();
  auto scales = scales_of(whole);
  whole.template get<AdamW>().lr = -1;
  CHECK_THROWS_AS(whole.step(Rows{data[3].input * 1e5, data[3].target}), BadValue);
  whole.template get<AdamW>().lr = 1e-2;
  CHECK(same_state(scales_of(whole), scales));
  whole.restore(state);
  resumed.step(data[5]);
  resumed.restore(state);
  for (int i : {3, 4}) {
    auto loss = whole.step(data[i]).mean();
    torch::manual_seed(1);
    CHECK(loss.isfinite().all().template item<bool>());
  }
  auto end = parameters_of(whole.model());
  resumed.restore(state);
  resumed.step(data[3]);
  torch::manual_seed(1);
  resumed.step(data[4]);
  CHECK(test::same_bits(parameters_of(resumed.model()), end));
  CHECK(same_state(scales_of(resumed), scales_of(whole)));
}

}  // namespace guarantees::fp8
