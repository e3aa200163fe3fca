// The scales of FP8 against a plain computation; saved, restored, and updated once per step.
#include "test.hpp"

#include <deque>

#include "fp8_nets.hpp"

namespace guarantees::fp8 {

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
