// Precision and clipping equal the loop written by hand; the loss scale follows its rule, and a
// step that is not accepted changes nothing.
#include "test.hpp"

#include <ATen/autocast_mode.h>

#include "guarantees/recipes/hand.hpp"

namespace guarantees::precision {

constexpr std::int64_t width = 10, classes = 5;

struct NetImpl : torch::nn::Module {
  torch::nn::Linear in{width, 32}, out{32, classes};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({32})};
  torch::nn::Dropout drop{0.2};
  NetImpl() {
    register_module("in", in), register_module("out", out);
    register_module("norm", norm), register_module("drop", drop);
  }
  at::Tensor forward(at::Tensor x) { return out(drop(at::gelu(norm(in(x))))); }
};
TORCH_MODULE(Net);

Net net() {
  return seeded([] { return Net(); });
}
at::Tensor sum_of(Net& model, const Rows& batch) {
  return at::cross_entropy_loss(model->forward(batch.input), batch.target, {}, at::Reduction::Sum);
}
struct Sum {
  template <class Run>
  Loss operator()(Run&, Net& model, const Rows& batch) {
    return {sum_of(model, batch), batch.target.numel()};
  }
};

std::vector<Rows> batches(int steps = 6) { return class_batches(steps, 9, width, classes); }
/// Overflows in half precision only.
Rows overflowing(Rows batch) {
  batch.input = batch.input * 1e6;
  return batch;
}

Trace by_hand(at::ScalarType type, CPUProducts way = CPUProducts::Fastest) {
  auto model = net();
  hand::Products products(type, way);
  hand::FusedAdamW optimizer(*model, 1e-2, false);
  Trace trace;
  const auto data = batches();  // draws random numbers
  torch::manual_seed(11);
  for (const auto& batch : data) {
    at::Tensor loss;
    {
      hand::Autocast autocast(type);
      loss = sum_of(model, batch) / 9.0;
    }
    loss.backward();
    optimizer.update();
    model->zero_grad();
    trace.push_back(loss.detach());
  }
  for (auto& p : parameters_of(model)) trace.push_back(p);
  trace.push_back(torch::rand({4}));
  return trace;
}

template <class Number>
Trace by_recipe(Number precision = {}) {
  return trained(Trainer<Net, AdamW, Number, Sum>(net(), AdamW{.lr = 1e-2}, precision), batches());
}

/// Returns what a skipped step must not change: all but the loss scale, the attempts and the
/// generators.
template <class T>
StateDict unmoved(T& trainer) {
  StateDict state = trainer.state();
  std::erase_if(state, [](const auto& item) {
    return item.first.starts_with("ikebana.trainer.") ||
           item.first.starts_with("ikebana.Precision");
  });
  return state;
}

constexpr Precision<FP16> scaling = {.init_scale = 1024, .growth_interval = 3, .min_scale = 16};

at::Tensor by_autocast_to_half(auto&& loss) {
  hand::Autocast autocast(at::kHalf);
  return loss();
}

/// Compares the loss scale and all parameters after every step, with overflows in between.
template <class... Clip>
void follows_the_scaler(Clip... clip) {
  constexpr bool clips = sizeof...(Clip) > 0;
  auto model = net();
  hand::FusedAdamW optimizer(*model, 1e-2, false);
  hand::Scaler scaler{.scale = 1024, .interval = 3, .floor = 16};
  Trainer<Net, AdamW, Precision<FP16>, Sum, Clip...> trainer(net(), AdamW{.lr = 1e-2}, scaling,
                                                             clip...);
  auto data = batches(24);
  for (int i : {2, 7, 8, 9, 10, 11, 12, 13, 14, 18}) data[i] = overflowing(data[i]);
  int skipped = 0;
  hand::Products products(at::kHalf);
  for (std::size_t i = 0; i < data.size(); ++i) {
    CAPTURE(i);
    torch::manual_seed(static_cast<std::uint64_t>(i));
    auto before = unmoved(trainer);
    Report report = trainer.step(data[i]);
    torch::manual_seed(static_cast<std::uint64_t>(i));
    at::Tensor scale = at::scalar_tensor(scaler.scale, at::kFloat);
    at::Tensor loss = by_autocast_to_half([&] { return sum_of(model, data[i]) / 9.0; });
    (loss * scale).backward();
    bool overflow = false;
    for (const auto& g : optimizer.gradients())
      overflow = overflow || !g.isfinite().all().item<bool>();
    auto [divisor, norm] = hand::clipping(optimizer.gradients(), scale, clips ? 0.5 : 1e30);
    if (!overflow) optimizer.update(divisor);
    model->zero_grad();
    scaler.after(overflow);
    skipped += overflow;
    CHECK(report.skipped() == overflow);
    CHECK(report.grad_norm().has_value() == clips);
    if (clips && !overflow) CHECK(*report.grad_norm() == norm.item<double>());
    CHECK(trainer.template mechanism<Precision<FP16>>().loss_scale() == scaler.scale);
    CHECK(test::same_bits(parameters_of(trainer.model()), parameters_of(model)));
    CHECK(same_state(before, unmoved(trainer)) == overflow);
  }
  CHECK(skipped == 10);
  CHECK(trainer.steps() == 24);
}

/// Compares with clip_grad_norm_ and PyTorch's own optimizer, in double precision.
template <class Optimizer, class TorchOptimizer, class Options>
void clips_like_pytorch(Optimizer policy, Options options, double max_norm) {
  auto in_double = [] {
    auto model = net();
    model->drop->options.p(0);
    model->to(at::kDouble);
    return model;
  };
  auto model = in_double();
  TorchOptimizer optimizer(model->parameters(), options);
  Trainer<Net, Optimizer, Sum, ClipGradNorm> trainer(in_double(), policy,
                                                     ClipGradNorm{.max_norm = max_norm});
  for (const auto& batch : class_batches(10, 9, width, classes, at::kDouble)) {
    auto start = parameters_of(model);
    optimizer.zero_grad();
    (sum_of(model, batch) / 9.0).backward();
    double norm = torch::nn::utils::clip_grad_norm_(model->parameters(), max_norm);
    optimizer.step();
    Report report = trainer.step(batch);
    CHECK(*report.grad_norm() == doctest::Approx(norm).epsilon(1e-6));
    CHECK(report.skipped() == false);
    // The common factor is a float, as in the fused operators: three roundings of 2^-24.
    auto now = parameters_of(model), ours = parameters_of(trainer.model());
    for (std::size_t i = 0; i < now.size(); ++i) {
      double update = largest_difference(now[i], start[i]);
      double bound = norm < max_norm ? 1e-13 : 3 * std::pow(2.0, -24) * (update + 1e-2);
      CHECK(largest_difference(now[i], ours[i]) <= bound);
    }
    trainer.with_full_weights([&](Net& m) {  // so that differences do not accumulate
      torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < now.size(); ++i) m->parameters()[i].copy_(now[i]);
    });
  }
}

TEST_CASE("autocast and full precision equal the loop written by hand to the bit") {
  auto full = by_hand(at::kFloat), brain = by_hand(at::kBFloat16);
  CHECK_FALSE(test::same_bits(full, brain));
  CHECK(test::same_bits(by_recipe<Precision<FP32>>(), full));
  CHECK(test::same_bits(by_recipe<Precision<TF32>>(), full));
  CHECK(test::same_bits(by_recipe<Precision<BF16>>(), brain));
  CHECK_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_CASE("the loss scale grows, backs off, skips and stops at its floor, also under clipping") {
  follows_the_scaler();
  follows_the_scaler(ClipGradNorm{.max_norm = 0.5});
}

TEST_CASE("the loss scale grows, also where growth_interval becomes less than the steps so far") {
  Trainer<Net, SGD, Precision<FP16>, Sum> trainer(net(), Precision<FP16>{.init_scale = 4});
  auto data = batches(6);
  for (int i = 0; i < 5; ++i) trainer.step(data[i]);
  auto& scaler = trainer.mechanism<Precision<FP16>>();
  CHECK(scaler.loss_scale() == 4);
  scaler.values.growth_interval = 3;
  trainer.step(data[5]);
  CHECK(scaler.loss_scale() == 8);
}

TEST_CASE("too many skips in a row are an error, and fewer are not") {
  Precision<FP16> values{.min_scale = 1, .max_skips = 3};
  Trainer<Net, AdamW, Precision<FP16>, Sum> trainer(net(), values);
  auto data = batches(5);
  auto state = unmoved(trainer);
  for (int round : {0, 1}) {
    CAPTURE(round);
    for (int i = 0; i < 3; ++i) CHECK(trainer.step(overflowing(data[i])).skipped());
    if (round == 0) {
      CHECK_FALSE(trainer.step(data[3]).skipped());  // restarts the count
      state = unmoved(trainer);
    }
  }
  auto text = test::message_of<NonFinite>([&] { trainer.step(overflowing(data[4])); });
  CHECK(test::contains(text, "more than 3 steps in a row"));
  CHECK(same_state(unmoved(trainer), state));
  CHECK(trainer.steps() == 7);
  CHECK_FALSE(trainer.step(data[4]).skipped());
}

TEST_CASE("clipping equals clip_grad_norm_ with the same optimizer") {
  for (double max_norm : {1e-3, 0.3, 1e6}) {
    CAPTURE(max_norm);
    clips_like_pytorch<SGD, torch::optim::SGD>(
        SGD{.lr = 0.1, .momentum = 0.9}, torch::optim::SGDOptions(0.1).momentum(0.9), max_norm);
    clips_like_pytorch<AdamW, torch::optim::AdamW>(AdamW{.lr = 1e-3},
                                                   torch::optim::AdamWOptions(1e-3), max_norm);
  }
}

}  // namespace guarantees::precision
