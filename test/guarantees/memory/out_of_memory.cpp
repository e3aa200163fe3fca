// Tests what an error says if memory runs out: what a step takes, which policy saves how much, and
// that finding it out changes nothing.
#include <sys/resource.h>

#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/estimate.hpp>
#include <ikebana/posix/machine_memory.hpp>
#include <ikebana/shard.hpp>

#include "../../../examples/models/gpt.hpp"
#include "../../../examples/models/lstm.hpp"
#include "../../../examples/models/resnet.hpp"
#include "explained.hpp"
#include "guarantees/guarantees.hpp"
#include "own_momentum.hpp"
#include "test.hpp"

namespace guarantees::out_of_memory {

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

/// Checks the peaks that an error states. Returns how many policies it names.
template <class Model, class Config, class Batch>
std::size_t check_peaks(const Config& config, const Batch& batch, bool is_first,
                        std::int64_t inputs) {
  auto maker = [&] { return Model(config); };
  using Full = Trainer<Model, AdamW, Checkpoint<ikebana::Full>>;
  std::istringstream lines = test::explained<Full>(maker(), batch, is_first);
  std::string word;
  std::int64_t bytes = 0;
  lines >> bytes >> word;
  test::check_peak(lines, estimate<Full>(maker, shapes(batch)));

  using Plain = Trainer<Model, AdamW>;
  lines = test::explained<Plain>(maker(), batch, is_first);
  lines >> bytes >> word;
  CHECK(bytes == inputs);
  const double peak = test::check_peak(lines, estimate<Plain>(maker, shapes(batch)));
  return test::check_savings(lines, peak, [&](const std::string& policy) {
    return peak_with<Model>(policy, config, batch);
  });
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

template <class Recipe>
struct With {
  static void check(double epsilon = 0.002) {
    const GPTConfig config{};
    const Tokens batch = random_batch(config, 16, 64);
    auto maker = [&] { return GPT(config); };
    CAPTURE(ikebana::detail::type_name<Recipe>());
    for (const bool is_first : {true, false}) {
      std::istringstream lines = test::explained<Recipe>(maker(), batch, is_first);
      std::string inputs;
      std::getline(lines, inputs);
      test::check_peak(lines, estimate<Recipe>(maker, shapes(batch)), epsilon);
    }
  }
};
template <class... Policies>
using On = With<Trainer<GPT, Policies...>>;

TEST_CASE("out of memory: the peak is that of later steps, whatever the policies") {
  On<InBackward<AdamW>>::check();
  On<AdamW, Precision<BF16Weights>>::check();
  On<AdamW, Precision<BF16True>>::check(0.02);  // memory for rounding, of no kind
  On<AdamW, Precision<FP16>, ClipGradNorm, Checkpoint<Selective>>::check();
  On<AdamW, EMA, Accumulate<4>>::check();
  On<Muon, Accumulate<Fit<8>>, Checkpoint<Every<2>>>::check();
}

TEST_CASE("out of memory: a frozen parameter has no state that could be saved") {
  const GPTConfig config{};
  const Tokens batch = random_batch(config, 2, 16), none = shapes(batch);
  auto maker = [&] { return GPT(config); };
  using Recipe = Trainer<GPT, AdamW, Freeze<::Block>>;
  auto lines = test::explained<Recipe>(maker(), batch, /*is_first=*/false);
  std::string inputs;
  std::getline(lines, inputs);
  const double peak = test::check_peak(lines, estimate<Recipe>(maker, none));
  test::check_savings(lines, peak, [&](const std::string& policy) {
    if (policy == "AdamW8bit")
      return estimate<Trainer<GPT, AdamW8bit, Freeze<::Block>>>(maker, none).peak;
    if (policy == "Accumulate<2>")
      return estimate<Trainer<GPT, AdamW, Accumulate<2>, Freeze<::Block>>>(maker, none).peak;
    REQUIRE(policy == "Checkpoint<Full>");
    return estimate<Trainer<GPT, AdamW, Checkpoint<Full>, Freeze<::Block>>>(maker, none).peak;
  });
}

TEST_CASE("out of memory: where the first update cannot be tried, the step has no state yet") {
  const GPTConfig config{};
  const Tokens batch = random_batch(config, 16, 64);
  auto lines = test::explained<Trainer<GPT, test::OwnMomentum>>(
      GPT(config), batch, /*is_first=*/true, test::OwnMomentum{.fails_at = 0});
  std::string inputs;
  std::getline(lines, inputs);
  auto maker = [&] { return GPT(config); };
  test::check_peak(lines, estimate<Trainer<GPT, SGD>>(maker, shapes(batch)));
}

TEST_CASE("out of memory: under a budget the step is that of the plan") {
  const GPTConfig config{};
  const Tokens batch = random_batch(config, 16, 64);
  bridge::MemoryCounter counter(at::kCPU);
  const std::int64_t before = counter.now();
  Trainer trainer{GPT(config), AdamW{}, Checkpoint<Budget<>>{.limit = before + MiB(30)}};
  trainer.step(batch), trainer.step(batch);
  counter.reset_peak();
  trainer.step(batch);
  const double peak = static_cast<double>(counter.peak() - before) / (1 << 20);
  const bridge::MemoryLimit limit(counter.now() + MiB(8));
  std::string text = test::message_of<OutOfMemory>([&] { trainer.step(batch); });
  text = text.substr(text.find("\n  peak ") + 7);
  CHECK(std::stod(text) == doctest::Approx(peak).epsilon(0.01));
  CHECK(text.find("Checkpoint<Full>") == std::string::npos);
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

TEST_CASE("out of memory: nothing is named that the recipe or the batch cannot have") {
  const GPTConfig config{};
  const auto named = [&]<class Recipe>(std::type_identity<Recipe>, std::int64_t rows) {
    const auto lines =
        test::explained<Recipe>(GPT(config), random_batch(config, rows, 64), /*is_first=*/false);
    return lines.str();
  };
  const std::string in_backward = named(std::type_identity<Trainer<GPT, InBackward<AdamW>>>(), 16);
  CHECK(in_backward.find("Checkpoint<Full>") != std::string::npos);
  for (const char* policy : {"Accumulate", "Shard", "AdamW8bit"})
    CHECK(in_backward.find(policy) == std::string::npos);
  const std::string one_row = named(std::type_identity<Trainer<GPT, AdamW>>(), 1);
  CHECK(one_row.find("AdamW8bit") != std::string::npos);
  CHECK(one_row.find("Accumulate") == std::string::npos);
}

TEST_CASE("out of memory: of several attempts that failed, the table is that of the last one") {
  bridge::MemoryCounter counter(at::kCPU);
  const GPTConfig config{};
  const Tokens batch = random_batch(config, 16, 64);
  const auto peak_in = [](const std::string& text) {
    return std::stod(text.substr(text.find("\n  peak ") + 7));
  };
  const auto estimated = [&](auto recipe) {
    using Recipe = typename decltype(recipe)::type;
    const auto peak = estimate<Recipe>([&] { return GPT(config); }, shapes(batch)).peak;
    return doctest::Approx(static_cast<double>(peak) / (1 << 20)).epsilon(0.01);
  };
  for (const bool is_first : {true, false}) {
    Trainer trainer{GPT(config), AdamW{}, Accumulate<Fit<>>{.max = 4}};
    if (!is_first) trainer.step(batch);
    std::string text;
    {
      const bridge::MemoryLimit limit(counter.now() + MiB(4));
      text = test::message_of<OutOfMemory>([&] { trainer.step(batch); });
    }
    CHECK(text.find("into 1, 2, 4 microbatches") != std::string::npos);
    CHECK(text.find("\nA step in 4 microbatches: ") != std::string::npos);
    CHECK(peak_in(text) == estimated(std::type_identity<Trainer<GPT, AdamW, Accumulate<4>>>()));
    // The next step begins as this one did.
    text = "\n" + trainer.explain_peak(batch);
    CHECK(text.find("\nA step in 1 microbatch: ") != std::string::npos);
    CHECK(peak_in(text) == estimated(std::type_identity<Trainer<GPT, AdamW>>()));
    CHECK(trainer.step(batch).microbatches == 1);
  }
}

/// Allocates what no machine has, or says what oneDNN does without memory.
struct LargeImpl : torch::nn::Module {
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(4, 4));
  bool of_code = false;
  template <class Run>
  Loss loss(Run&, const at::Tensor& x) {
    TORCH_CHECK(!of_code, "could not create a primitive: not enough memory");
    return {linear(x).sum() + at::empty({std::int64_t(1) << 50}, at::kByte).sum(), x.numel()};
  }
};
TORCH_MODULE(Large);

/// RAII: a limit of address space, far from what is in use.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(std::int64_t bytes) {
    REQUIRE(::getrlimit(RLIMIT_AS, &before_) == 0);
    const rlimit limit{static_cast<rlim_t>(bytes), before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
  }
  ~AddressSpaceLimit() { ::setrlimit(RLIMIT_AS, &before_); }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_CASE("out of memory: a limit of address space is named, with what is in use") {
  const at::Tensor batch = at::ones({4, 4});
  Trainer once{Large(), SGD{}};
  Trainer fits{Large(), SGD{}, Accumulate<Fit<>>{.max = 2}};
  const auto texts = [&] {
    return std::vector{test::message_of<OutOfMemory>([&] { once.step(batch); }),
                       test::message_of<OutOfMemory>([&] { fits.step(batch); }),
                       test::message_of<OutOfMemory>([&] { once.evaluate(std::vector{batch}); })};
  };
  const std::int64_t mapped = ikebana::detail::mapped_bytes(), bytes = mapped + GiB(64);
  REQUIRE(mapped > MiB(16));
  for (const std::string& text : texts()) CHECK(text.find("address space") == std::string::npos);
  {
    const AddressSpaceLimit limit(bytes);
    const std::string sentence =
        "The address space of this process is limited to " + std::to_string(bytes) + " bytes (";
    for (const std::string& text : texts()) {
      const std::size_t at = text.find(sentence);
      REQUIRE(at != std::string::npos);
      const double in_use = std::stod(text.substr(text.find(" by ulimit -v, and ", at) + 19));
      CHECK(in_use == doctest::Approx(static_cast<double>(mapped)).epsilon(0.2));
    }
    // If a limit of this library refuses memory, it is not the system that does.
    const bridge::MemoryLimit own(0);
    for (const std::string& text : texts()) CHECK(text.find("ulimit") == std::string::npos);
  }
  once.model()->of_code = fits.model()->of_code = true;
  for (const std::string& text : texts())
    CHECK(text.find("makes none on this thread any more: start the process again") !=
          std::string::npos);
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

}  // namespace guarantees::out_of_memory
