// An estimate of memory equals what training takes, for every kind of policy, and allocates
// nothing.
#include <ikebana/estimate.hpp>

#include <chrono>

#include "../../../examples/models/gpt.hpp"
#include "../../../examples/models/resnet.hpp"
#include "guarantees/guarantees.hpp"
#include "test.hpp"

namespace guarantees::estimates {

const GPTConfig text{.layers = 3, .width = 128, .heads = 4, .context = 64};

/// The measured memory of a training: the peak of its third step, and the bytes in use after it.
struct Measured {
  std::int64_t peak = 0, between_steps = 0;
};
template <class Recipe, class Maker, class Batch, class... Values>
Measured measured(const Maker& maker, const Batch& batch, Values... values) {
  std::int64_t batch_bytes = 0;
  ikebana::detail::StorageBytes counted;
  ikebana::detail::for_each_tensor(batch,
                                   [&](const at::Tensor& t) { batch_bytes += counted.add(t); });
  bridge::MemoryCounter counter(at::kCPU);
  const std::int64_t before = counter.now() - batch_bytes;
  Recipe trainer(maker, std::move(values)...);
  for (int step = 0; step < 2; ++step) trainer.step(batch);
  counter.reset_peak();
  trainer.step(batch);
  return {counter.peak() - before, counter.now() - before};
}

double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}
void check_sums(const Estimate& e) {
  UnitMemory sum;
  for (const UnitMemory& unit : e.units) {
    sum.parameters += unit.parameters, sum.gradients += unit.gradients;
    sum.optimizer_state += unit.optimizer_state, sum.activations += unit.activations;
  }
  CHECK(sum.parameters == e.parameters);
  CHECK(sum.gradients == e.gradients);
  CHECK(sum.optimizer_state == e.optimizer_state);
  CHECK(sum.activations == e.activations);
}

template <class Recipe, class Maker, class Batch, class... Values>
Estimate check_recipe(const std::string& name, const Maker& maker, const Batch& batch,
                      Values... values) {
  INFO(name);
  const Estimate shape = estimate<Recipe>(maker, shapes(batch), values...);
  const Estimate real = estimate<Recipe>(maker, batch, values...);
  const Measured training = measured<Recipe>(maker, batch, values...);
  CHECK_FALSE(shape.is_measured);
  CHECK(real.is_measured);
  CHECK(ratio(shape.peak, training.peak) == doctest::Approx(1).epsilon(0.02));
  CHECK(ratio(shape.between_steps, training.between_steps) == doctest::Approx(1).epsilon(0.005));
  CHECK(ratio(real.peak, training.peak) == doctest::Approx(1).epsilon(0.001));
  CHECK(ratio(real.between_steps, training.between_steps) == doctest::Approx(1).epsilon(0.001));
  check_sums(shape);
  check_sums(real);
  CHECK(shape.peak > shape.between_steps);
  return shape;
}
auto make_gpt = [] { return GPT(text); };

TEST_CASE("estimate: peak and what is kept are those of training, for every kind of policy") {
  const Tokens batch = random_batch(text, 8, 64);
  std::int64_t parameters = 0;
  for (const auto& p : GPT(text)->parameters()) parameters += p.numel();

  const Estimate plain = check_recipe<Trainer<GPT, AdamW>>("AdamW", make_gpt, batch);
  CHECK(plain.elements == parameters);
  CHECK(plain.parameters == 4 * parameters);
  CHECK(plain.gradients == 4 * parameters);
  CHECK(plain.optimizer_state - 8 * parameters < 64);  // and counts of steps
  CHECK(plain.averages == 0);
  CHECK(plain.gathered == 0);
  CHECK(plain.peak_phase == Phase::Backward);

  const Estimate full =
      check_recipe<Trainer<GPT, AdamW, Checkpoint<Full>>>("Full", make_gpt, batch);
  CHECK(full.activations < plain.activations / 4);
  CHECK(full.peak < plain.peak);
  const Estimate selective =
      check_recipe<Trainer<GPT, AdamW, Checkpoint<Selective>, Accumulate<2>>>("Selective", make_gpt,
                                                                              batch);
  CHECK(selective.activations < plain.activations / 2);
  const Estimate bf16 = check_recipe<Trainer<GPT, AdamW, Precision<BF16>, EMA, ClipGradNorm>>(
      "BF16, EMA, ClipGradNorm", make_gpt, batch);
  CHECK(bf16.averages == 4 * parameters);
  CHECK(bf16.activations < plain.activations);
  const Estimate weights =
      check_recipe<Trainer<GPT, Muon, Precision<BF16Weights>, Checkpoint<Segments<2>>>>(
          "BF16Weights, Muon", make_gpt, batch);
  CHECK(weights.gathered >= 2 * parameters);
  const Estimate small = check_recipe<Trainer<GPT, AdamW8bit, Precision<BF16True>>>(
      "AdamW8bit, BF16True", make_gpt, batch);
  CHECK(small.parameters < 2.1 * parameters);  // norms and biases stay FP32
  CHECK(small.optimizer_state < 3 * parameters);
}

TEST_CASE("estimate: batch norm, convolutions, loss scaling and momentum") {
  const ResNetConfig config{.blocks = 1, .stages = 2};
  const Images batch = random_batch(config, 16, 16);
  const Estimate e = check_recipe<Trainer<ResNet, SGD, Precision<FP16>>>(
      "FP16, SGD", [&] { return ResNet(config); }, batch, SGD{.lr = 0.1, .momentum = 0.9});
  CHECK(e.buffers > 0);
  CHECK(e.optimizer_state >= e.parameters);
}

struct WordsImpl : torch::nn::Module {
  torch::nn::Embedding table{torch::nn::EmbeddingOptions(5000, 64).sparse(true)};
  torch::nn::Linear linear{64, 64};
  WordsImpl() { register_module("table", table), register_module("linear", linear); }
  template <class Run>
  Loss loss(Run&, const at::Tensor& indices) {
    at::Tensor y = linear(table(indices)).tanh();
    return {y.square().sum(), y.numel()};
  }
};
TORCH_MODULE(Words);

TEST_CASE("estimate: sparse gradients have as many rows as there are indices") {
  auto maker = [] { return Words(); };
  const at::Tensor indices = at::randperm(5000).slice(0, 0, 256).contiguous();
  constexpr std::int64_t rows = 256 * 64 * 4, dense = (64 * 64 + 64) * 4;  // without indices
  CHECK(check_recipe<Trainer<Words, SparseAdam>>("SparseAdam", maker, indices).gradients ==
        rows + dense);
  check_recipe<Trainer<Words, SparseAdam, Accumulate<4>, ClipGradValue, SkipSpikes, SWA>>(
      "Accumulate", maker, indices, ClipGradValue{.clip_value = 1});
  using Dense = Trainer<Words, AdamW>;
  CHECK_THROWS_WITH_AS(estimate<Dense>(maker, shapes(indices)),
                       doctest::Contains("the gradient of `table.weight` is sparse"), BadModel);
}

/// A policy of a user's own, which keeps the gradients of the last step.
struct KeepGradients {
  using axis = ikebana::axis::clip;
};

}  // namespace guarantees::estimates

template <>
struct ikebana::Mechanism<guarantees::estimates::KeepGradients> : ikebana::ClipHooks {
  guarantees::estimates::KeepGradients values;
  explicit Mechanism(guarantees::estimates::KeepGradients v) : values(v) {}
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks&) {
    kept.clear();
    for (const at::Tensor& g : gradients.values) kept.push_back(g.clone());
  }
  std::vector<at::Tensor> kept;
};

namespace guarantees::estimates {

TEST_CASE("estimate: what a policy of one's own keeps is counted") {
  const Tokens batch = random_batch(text, 2, 16);
  const Estimate e = check_recipe<Trainer<GPT, AdamW, KeepGradients>>("own", make_gpt, batch);
  CHECK(e.other >= 0.99 * e.gradients);
}

TEST_CASE("estimate: a model of 7 billion parameters allocates nothing and draws nothing") {
  const GPTConfig config{.layers = 32, .width = 4096, .heads = 32, .context = 2048};
  auto meta = [] { return at::empty({1, 2048}, at::TensorOptions(at::kMeta).dtype(at::kLong)); };
  bridge::MemoryCounter counter(at::kCPU);
  const std::int64_t before = counter.now();
  const auto position = bridge::GeneratorState{c10::Device(at::kCPU)}.position();
  const auto begin = std::chrono::steady_clock::now();
  const Estimate e =
      estimate<Trainer<GPT, AdamW>>([&] { return GPT(config); }, Tokens{meta(), meta()});
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  MESSAGE("estimated in " << time.count() << " s");
  CHECK(e.elements > 6'400'000'000);
  const double each = ratio(e.parameters + e.gradients + e.optimizer_state, e.elements);
  CHECK(each == doctest::Approx(16).epsilon(1e-4));
  CHECK(e.table().find("16.00 bytes per parameter") != std::string::npos);
  CHECK(counter.peak() - before < 16 << 20);
  CHECK(counter.now() == before);
  CHECK(bridge::GeneratorState{c10::Device(at::kCPU)}.position() == position);
}

TEST_CASE("estimate: table, CSV and JSON have the same numbers") {
  const Estimate e = estimate<Trainer<GPT, AdamW>>(make_gpt, shapes(random_batch(text, 2, 16)));
  auto has = [text = e.json()](const std::string& name, std::int64_t number) {
    return text.find("\"" + name + "\": " + std::to_string(number)) != std::string::npos;
  };
  CHECK(has("peak", e.peak));
  CHECK(has("optimizer_state", e.optimizer_state));
  CHECK(has("activations", e.units[1].activations));
  CHECK(e.csv().find("between_steps," + std::to_string(e.between_steps) + "\n") !=
        std::string::npos);
  const std::string table = e.table();
  CHECK(table.find("block0 .. block2, each of 3") != std::string::npos);
  CHECK(table.find("in backward") != std::string::npos);
}

TEST_CASE("estimate: a budget is planned by what the estimate counts") {
  using Recipe = Trainer<GPT, AdamW, Checkpoint<Budget<>>>;
  const Tokens batch = shapes(random_batch(text, 8, 64));
  auto peak = [&](std::int64_t bytes) {
    return estimate<Recipe>(make_gpt, batch, Checkpoint<Budget<>>{.limit = bytes}).peak;
  };
  const std::int64_t most = estimate<Trainer<GPT, AdamW>>(make_gpt, batch).peak,
                     least = estimate<Trainer<GPT, AdamW, Checkpoint<Full>>>(make_gpt, batch).peak;
  CHECK(peak(2 * most) == most);
  CHECK(peak((most + least) / 2) <= (most + least) / 2);
  CHECK(peak((most + least) / 2) > least);
  CHECK_THROWS_WITH_AS(peak(MiB(1)), doctest::Contains("needs at least"), OutOfMemory);
}

TEST_CASE("estimate: a limit of memory in the recipe limits nothing of the process") {
  auto& allocator = bridge::CountingAllocatorV2::install();
  const std::int64_t before = allocator.limit();
  std::int64_t during = 0;
  estimate<Trainer<GPT, AdamW, Accumulate<Fit<>>>>(
      [&] {
        during = allocator.limit();
        return GPT(text);
      },
      shapes(random_batch(text, 8, 64)), Accumulate<Fit<>>{.max = 4, .limit = MiB(1024)});
  CHECK(during == before);
  CHECK(allocator.limit() == before);
}

}  // namespace guarantees::estimates
