// Tests what computing without values must not do: change a trainer, read a value, take a model
// that was there before.
#include <ikebana/estimate.hpp>

#include "../../../examples/models/resnet.hpp"
#include "guarantees/guarantees.hpp"
#include "own_momentum.hpp"
#include "test.hpp"

namespace guarantees::without_values {

TEST_CASE("estimate: a step without values leaves buffers, averages and generators as they are") {
  const ResNetConfig config{.blocks = 1, .stages = 2};
  const Images batch = random_batch(config, 16, 32);
  auto trained = [&](bool runs_dry) {
    bridge::MemoryCounter counter(at::kCPU);
    torch::manual_seed(7);
    ResNet model(config);
    Checkpoint<Budget<>> policy{.limit = GiB(1)};
    Trainer<ResNet, AdamW, Checkpoint<Budget<>>, EMA> trainer{model, policy};
    auto& budget = trainer.get<Checkpoint<Budget<>>>();
    if (runs_dry) {
      budget.limit = counter.now() + MiB(1);
      CHECK_THROWS_WITH_AS(trainer.step(batch), doctest::Contains("needs at least"), OutOfMemory);
    }
    budget.limit = GiB(1);
    for (int step = 0; step < 3; ++step) trainer.step(batch);
    std::vector<at::Tensor> all = model->parameters(), buffers = model->buffers();
    const auto& averages = trainer.mechanism<EMA>().averages();
    all.insert(all.end(), buffers.begin(), buffers.end());
    all.insert(all.end(), averages.begin(), averages.end());
    return all;
  };
  CHECK(test::same_bits(trained(false), trained(true)));
}

struct ReadsImpl : torch::nn::Module {
  torch::nn::Linear linear{64, 64};
  ReadsImpl() { register_module("linear", linear); }
  template <class Run>
  Loss loss(Run&, const at::Tensor& x) {
    at::Tensor y = linear(x);
    if (y.mean().item<double>() > 0) y = y * 2;
    return {y.sum(), y.numel()};
  }
};
TORCH_MODULE(Reads);

/// Has buffers that are too large to be computed for their own sake.
struct NormsImpl : torch::nn::Module {
  torch::nn::BatchNorm1d norm{4096};
  bool reads = false;
  explicit NormsImpl(bool r) : reads(r) { register_module("norm", norm); }
  template <class Run>
  Loss loss(Run&, const at::Tensor& x) {
    const at::Tensor y = norm(x);
    if (reads) (void)y.mean().item<double>();
    return {y.square().sum(), y.numel()};
  }
};
TORCH_MODULE(Norms);

TEST_CASE("estimate: a step that throws without values is undone without them") {
  const at::Tensor rows = at::randn({16, 4096});
  auto error = [&]<class R>(std::type_identity<R>, bool reads, auto... values) {
    return test::message_of(
        [&] { estimate<R>([&] { return Norms(reads); }, shapes(rows), values...); });
  };
  const std::string of_model = error(std::type_identity<Trainer<Norms, AdamW>>(), true);
  CHECK(test::contains(of_model, "`aten::_local_scalar_dense` needs the values"));
  CHECK_FALSE(test::contains(of_model, "keep what this one wrote"));
  const std::string of_update = error(std::type_identity<Trainer<Norms, test::OwnMomentum>>(),
                                      false, test::OwnMomentum{.fails_at = 1});
  CHECK(of_update == "in the middle");
}

TEST_CASE("estimate: a model that reads a value, and one that was there before, are errors") {
  using R = Trainer<Reads, SGD>;
  const at::Tensor rows = at::randn({64, 64});
  CHECK_THROWS_WITH_AS(estimate<R>([] { return Reads(); }, shapes(rows)),
                       doctest::Contains("`aten::_local_scalar_dense` needs the values"), Error);
  CHECK(estimate<R>([] { return Reads(); }, rows).is_measured);  // as the text says
  Reads before;
  const at::Tensor weight = before->linear->weight.clone();
  CHECK_THROWS_WITH_AS(estimate<R>([&] { return before; }, shapes(rows)),
                       doctest::Contains("`linear.weight` was there before"), BadModel);
  CHECK(before->linear->weight.equal(weight));
  CHECK_THROWS_WITH_AS(
      estimate<R>([] { return Reads(); }, shapes(rows), EstimateOptions{.ranks = 2, .rank = 2}),
      doctest::Contains("rank 2 of 2 is impossible"), BadValue);
  CHECK_THROWS_WITH_AS(
      estimate<R>([] { return Reads(); }, shapes(rows), EstimateOptions{.ranks = 2}),
      doctest::Contains("the recipe has no policy for several ranks"), BadValue);
}

/// A unit inside a unit. Backward needs two tensors of the inner one, and three of the outer one.
struct InsideImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return at::tanh(at::sigmoid(x)); }
};
TORCH_MODULE(Inside);
struct AroundImpl : torch::nn::Module {
  using units = Units<Inside>;
  Inside inside;
  AroundImpl() { register_module("inside", inside); }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return at::tanh(at::tanh(run(inside, at::tanh(x))));
  }
};
TORCH_MODULE(Around);
struct NestedImpl : torch::nn::Module {
  using units = Units<Around, Inside>;
  torch::nn::Linear linear{64, 64};
  Around around;
  NestedImpl() { register_module("linear", linear), register_module("around", around); }
  template <class Run>
  Loss loss(Run& run, const at::Tensor& x) {
    at::Tensor y = run(around, linear(x));
    return {y.sum(), y.numel()};
  }
};
TORCH_MODULE(Nested);

TEST_CASE(
    "estimate: what a unit inside another one keeps is its own; nothing is drawn or written") {
  const at::Tensor x = at::ones({256, 64});
  const auto position = [] { return bridge::GeneratorState{c10::Device(at::kCPU)}.position(); };
  const auto before = position();
  const std::int64_t one = 256 * 64 * 4;
  for (const at::Tensor& batch : {x, shapes(x)}) {
    const Estimate e = estimate<Trainer<Nested, SGD>>([] { return Nested(); }, batch);
    REQUIRE(e.units.size() == 3);
    CHECK(e.units[1].name == "around");
    CHECK(e.units[1].activations == 3 * one);
    CHECK(e.units[2].activations == 2 * one);
    CHECK(position() == before);
  }
}

}  // namespace guarantees::without_values
