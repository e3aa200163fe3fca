// What an error says where memory runs out: what a step takes, which policy saves how much, and
// that finding it out changes nothing.
#include <ikebana/bridge/memory.hpp>
#include <ikebana/estimate.hpp>
#include <ikebana/shard.hpp>

#include "../../examples/models/gpt.hpp"
#include "../../examples/models/lstm.hpp"
#include "../../examples/models/resnet.hpp"
#include "laws.hpp"
#include "test.hpp"

namespace laws::out_of_memory {

template <class Model, class Config, class Batch>
std::int64_t peak_with(const std::string& policy, const Config& config, const Batch& batch) {
  auto maker = [&] { return Model(config); };
  const Batch none = shapes(batch);
  if (policy == "Checkpoint<Full>")
    return estimate<Trainer<Model, AdamW, Checkpoint<Full>>>(maker, none).peak;
  if (policy == "Accumulate<2>")
    return estimate<Trainer<Model, AdamW, Accumulate<2>>>(maker, none).peak;
  if (policy == "AdamW8bit") return estimate<Trainer<Model, AdamW8bit>>(maker, none).peak;
  if (policy == "Shard<FSDP>, on 2 ranks")
    return estimate<Trainer<Model, AdamW, Shard<FSDP>>>(maker, none, EstimateOptions{.ranks = 2})
        .peak;
  FAIL("another policy");
  return 0;
}

/// What an error would say: its lines as numbers and words.
template <class Recipe, class Model, class Batch>
std::istringstream said(const Model& model, const Batch& batch, bool is_first) {
  auto core =
      std::make_shared<Core<Model, typename Recipe::Recipe>>(model, ikebana::detail::Values<>());
  if (!is_first) ikebana::step(*core, batch);
  ikebana::detail::StepMemory memory(*core);
  const auto text = ikebana::detail::dry_step(
      *core, memory.ledger(), memory, [&] { ikebana::step(*core, batch); },
      [&] {
        std::ostringstream lines;
        const Estimate& estimate = memory.estimate(batch);
        lines << memory.facts().unit_inputs << " inputs\n" << estimate.peak << " ";
        lines << static_cast<int>(estimate.peak_phase) << estimate.peak_unit << "\n";
        for (const auto& one : ikebana::detail::Savings(estimate, memory.facts()).all())
          lines << one.peak << " " << one.policy << "\n";
        return lines.str();
      });
  REQUIRE(text);
  return std::istringstream(*text);
}
/// The peak, and where it is, are those of an estimate.
template <class Recipe, class Model, class Batch>
double check_peak(std::istringstream& lines, const Model& maker, const Batch& batch) {
  const Estimate plain = estimate<Recipe>(maker, shapes(batch));
  const auto peak = static_cast<double>(plain.peak);
  double own = 0;
  std::string where;
  lines >> own >> where;
  CHECK(own == doctest::Approx(peak).epsilon(0.002));
  CHECK(where == std::to_string(static_cast<int>(plain.peak_phase)) + plain.peak_unit);
  return peak;
}
/// So are those of the policies that it names. Returns how many these are.
template <class Model, class Config, class Batch>
std::size_t check_peaks(const Config& config, const Batch& batch, bool is_first,
                        std::int64_t inputs) {
  auto maker = [&] { return Model(config); };
  using Full = Trainer<Model, AdamW, Checkpoint<ikebana::Full>>;
  std::istringstream lines = said<Full>(maker(), batch, is_first);
  std::string word;
  std::int64_t bytes = 0;
  lines >> bytes >> word;
  check_peak<Full>(lines, maker, batch);

  using Plain = Trainer<Model, AdamW>;
  lines = said<Plain>(maker(), batch, is_first);
  lines >> bytes >> word;
  CHECK(bytes == inputs);
  const double peak = check_peak<Plain>(lines, maker, batch);
  std::size_t count = 0;
  for (; lines >> bytes; ++count) {
    std::string policy;
    std::getline(lines >> std::ws, policy);
    CAPTURE(policy);
    const auto own = static_cast<double>(bytes),
               real = static_cast<double>(peak_with<Model>(policy, config, batch));
    CHECK(std::abs(own - real) <= (policy == "AdamW8bit" ? 0.015 : 0.1) * peak);
    CHECK(real < peak);
  }
  return count;
}

TEST_CASE("out of memory: the peaks in the error are those of the recipes that it names") {
  const GPTConfig gpt{};
  const LSTMConfig lstm{};
  const ResNetConfig images{};
  for (const bool is_first : {true, false}) {
    CHECK(check_peaks<GPT>(gpt, random_batch(gpt, 16, 64), is_first, 4 * 16 * 64 * 128 * 4) >= 3);
    check_peaks<LSTMLanguageModel>(lstm, random_batch(lstm, 8, 64), is_first, 2 * 8 * 64 * 256 * 4);
    check_peaks<ResNet>(images, random_batch(images, 4, 32), is_first, 1572864);
  }
}

TEST_CASE("out of memory: the error has the step's memory, and the next step trains on") {
  bridge::MemoryCounter counter(at::kCPU);
  const GPTConfig config{};
  const Tokens batch = random_batch(config, 16, 64);
  auto losses = [&](bool fails) {
    torch::manual_seed(7);
    Trainer trainer{GPT(config), AdamW{}};
    std::vector<double> all;
    for (int step = 0; step < 3; ++step) {
      if (fails) {
        const bridge::MemoryLimit limit(counter.now() + MiB(8));
        std::string text;
        try {
          trainer.step(batch);
        } catch (const OutOfMemory& error) {
          text = error.what();
        }
        for (const char* part :
             {"MemoryLimit", "estimated from shapes", "\n  activations           34.1 MiB",
              "  in backward", "\n  block0 .. block3, each of 4", "the peak is about",
              "\n    Checkpoint<Full> ", "\n    Accumulate<2> ", "\n    AdamW8bit "})
          CHECK(text.find(part) != std::string::npos);
        CHECK(text.back() != '\n');
      }
      all.push_back(trainer.step(batch).loss());
    }
    return all;
  };
  CHECK(losses(false) == losses(true));
}

struct ReadsImpl : torch::nn::Module {
  torch::nn::Linear linear{256, 256};
  ReadsImpl() { register_module("linear", linear); }
  template <class Run>
  Loss loss(Run&, const at::Tensor& x) {
    at::Tensor y = linear(x);
    if (y.mean().item<double>() > -1e9)
      for (int i = 0; i < 8; ++i) y = y * 1.01;
    return {y.sum(), y.numel()};
  }
};
TORCH_MODULE(Reads);

TEST_CASE(
    "out of memory: an evaluation, and a step whose shapes are not known, have what is held") {
  bridge::MemoryCounter counter(at::kCPU);
  const GPTConfig config{};
  const Tokens batch = random_batch(config, 16, 64);
  Trainer trainer{GPT(config), AdamW{}};
  trainer.step(batch);
  const bridge::MemoryLimit limit(counter.now() + MiB(4));
  CHECK_THROWS_WITH_AS(
      trainer.evaluate(std::vector{batch}),
      doctest::Contains("(evaluate, after step 1). Nothing was updated.\nThe memory held between "
                        "steps, on cpu, 834304 parameters\n  parameters "
                        "            3.2 MiB"),
      OutOfMemory);
  Trainer reads{Reads(), AdamW{}};
  const bridge::MemoryLimit smaller(counter.now() + KiB(300));
  CHECK_THROWS_WITH_AS(reads.step(at::ones({256, 256})),
                       doctest::Contains("The memory held between steps, on cpu, 65792 parameters"),
                       OutOfMemory);
}

}  // namespace laws::out_of_memory
