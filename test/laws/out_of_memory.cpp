// What an error says where memory runs out: what a step takes, which policy saves how much, and
// that finding it out changes nothing.
#include <ikebana/bridge/memory.hpp>
#include <ikebana/estimate.hpp>
#include <ikebana/posix/process_copy.hpp>
#include <ikebana/shard.hpp>
#include <thread>

#include "../../examples/models/gpt.hpp"
#include "../../examples/models/lstm.hpp"
#include "laws.hpp"
#include "test.hpp"

namespace laws::out_of_memory {

using ikebana::detail::in_process_copy;

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
  return estimate<Trainer<Model, AdamW>>(maker, none).peak;
}

/// The peaks that an error would name, and those of the policies that it names.
template <class Model, class Config, class Batch>
std::size_t check_peaks(const Config& config, const Batch& batch, bool is_first) {
  using Recipe = typename Trainer<Model, AdamW>::Recipe;
  auto core = std::make_shared<Core<Model, Recipe>>(Model(config), ikebana::detail::Values<>());
  if (!is_first) ikebana::step(*core, batch);
  ikebana::detail::StepMemory memory(*core);
  const auto said = ikebana::detail::dry_step(
      *core, memory.ledger(), memory, [&] { ikebana::step(*core, batch); },
      [&] {
        std::ostringstream lines;
        const Estimate& estimate = memory.estimate(batch);
        lines << estimate.peak << " none\n";
        for (const auto& one : ikebana::detail::Savings(estimate, memory.facts()).all())
          lines << one.peak << " " << one.policy << "\n";
        return lines.str();
      });
  REQUIRE(said);
  std::istringstream lines(*said);
  double peak = 0;
  std::size_t count = 0;
  for (std::int64_t named = 0; lines >> named; ++count) {
    std::string policy;
    std::getline(lines >> std::ws, policy);
    CAPTURE(policy);
    const auto own = static_cast<double>(named),
               real = static_cast<double>(peak_with<Model>(policy, config, batch));
    if (count == 0) CHECK(own == doctest::Approx(peak = real).epsilon(0.02));
    CHECK(std::abs(own - real) <= 0.1 * peak);
    if (count > 0) CHECK(real < peak);
  }
  return count;
}

TEST_CASE("out of memory: the peaks in the error are those of the recipes that it names") {
  const GPTConfig gpt{};
  const LSTMConfig lstm{};
  for (const bool is_first : {true, false}) {
    CHECK(check_peaks<GPT>(gpt, random_batch(gpt, 16, 64), is_first) >= 4);
    CHECK(check_peaks<LSTMLanguageModel>(lstm, random_batch(lstm, 8, 64), is_first) >= 4);
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

/// Keeps tensors and counts from step to step.
struct KeepsImpl : torch::nn::Module {
  using units = Units<torch::nn::Linear>;
  torch::nn::Linear linear{256, 256};
  at::Tensor hidden, mask;
  int calls = 0;
  KeepsImpl() { register_module("linear", linear); }
  template <class Run>
  Loss loss(Run& run, const at::Tensor& x) {
    ++calls;
    if (!hidden.defined()) hidden = at::zeros({256, 256});
    at::Tensor y = at::tanh(run(linear, x) + hidden);
    for (int i = 0; i < 8; ++i) y = y * 1.01;
    if (!mask.defined()) mask = at::tril(at::ones({256, 256}));
    hidden = y.detach();
    return {(y * mask).sum(), y.numel()};
  }
};
TORCH_MODULE(Keeps);

template <class... Policies>
void check_keeps(Policies... policies) {
  bridge::MemoryCounter counter(at::kCPU);
  const at::Tensor rows = at::ones({256, 256});
  Keeps model;
  Trainer<Keeps, AdamW, Policies...> trainer{model, policies...};
  std::string text;
  {
    const bridge::MemoryLimit limit(counter.now() + KiB(1100));
    try {
      trainer.step(rows);
    } catch (const OutOfMemory& error) {
      text = error.what();
    }
  }
  CAPTURE(text);
  CHECK(text.find("activations") != std::string::npos);
  CHECK(model->calls == 1);
  CHECK_FALSE(model->mask.defined());  // memory ran out before
  CHECK(model->hidden.equal(at::zeros({256, 256})));
  trainer.step(rows);
  CHECK(model->calls == 2);
  CHECK(model->mask.sum().item<double>() == 256 * 257 / 2);
}

TEST_CASE("out of memory: what a model keeps from step to step stays as it was") {
  check_keeps();
  check_keeps(Accumulate<1>{}, Precision<BF16>{});
}

TEST_CASE("out of memory: a budget that is too small changes nothing that a model keeps") {
  bridge::MemoryCounter counter(at::kCPU);
  Keeps model;
  const at::Tensor rows = at::ones({256, 256});
  Trainer<Keeps, AdamW, Checkpoint<Budget<>>> trainer{model, Checkpoint<Budget<>>{.bytes = 1}};
  auto& budget = trainer.get<Checkpoint<Budget<>>>();
  budget.bytes = counter.now() + KiB(1100);
  CHECK_THROWS_WITH_AS(trainer.step(rows), doctest::Contains("needs at least"), OutOfMemory);
  CHECK(model->calls == 1);
  CHECK_FALSE(model->mask.defined());
  budget.bytes = GiB(1);
  trainer.step(rows);
  CHECK(model->mask.sum().item<double>() == 256 * 257 / 2);
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
      doctest::Contains("The memory held between steps, on cpu, 834304 parameters\n  parameters "
                        "            3.2 MiB"),
      OutOfMemory);
  Trainer reads{Reads(), AdamW{}};
  const bridge::MemoryLimit smaller(counter.now() + KiB(300));
  CHECK_THROWS_WITH_AS(reads.step(at::ones({256, 256})),
                       doctest::Contains("The memory held between steps, on cpu, 65792 parameters"),
                       OutOfMemory);
}

TEST_CASE("process copy: returns what a function returns there, and changes nothing here") {
  int changed = 1;
  const std::string long_text(1 << 20, 'x');
  CHECK(in_process_copy([&] { return ++changed, long_text + std::to_string(changed); }) ==
        long_text + "2");
  CHECK(changed == 1);
  CHECK(in_process_copy([] { return std::string(); }) == "");
  CHECK_FALSE(in_process_copy([]() -> std::string { throw Error("no"); }));
  CHECK_FALSE(in_process_copy([]() -> std::string { std::abort(); }));
  CHECK_FALSE(in_process_copy([]() -> std::string { std::_Exit(0); }));
}

TEST_CASE("process copy: one that does not end is killed") {
  ikebana::detail::ProcessCopy copy;
  REQUIRE(copy.start([]() -> std::string {
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }));
  CHECK_FALSE(copy.result(std::chrono::milliseconds(50)));
}

}  // namespace laws::out_of_memory
