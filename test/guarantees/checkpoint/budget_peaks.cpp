// Checkpoint<Budget>: peaks are predicted, and no planned step exceeds its budget.
#include "test.hpp"

#include <ikebana/posix/processor.hpp>

#include "budget.hpp"
#include "guarantees/zoo.hpp"

namespace guarantees::budget {

TEST_CASE("budget: over twenty budgets no planned step exceeds its own, and peaks are predicted") {
  Trainer<Bench, AdamW, Word, Observe<Memory>> trainer(chain(8), Word{.limit = GiB(1)});
  auto& mechanism = trainer.mechanism<Word>();
  const at::Tensor input = rows();
  for (int i = 0; i < 2; ++i) trainer.step(input);
  const std::int64_t high = mechanism.planned().predicted.peak;
  const std::int64_t low = smallest_budget(mechanism.planned().planned);
  CHECK(low < high / 2);
  std::map<Choice, int> used;
  for (std::int64_t b = 0; b < 20; ++b) {
    const std::int64_t bytes = low + (high - low) * b / 19;
    trainer.get<Word>().limit = bytes;
    const std::int64_t measured = *trainer.step(input).peak_bytes;
    const auto& planned = mechanism.planned();
    CAPTURE(ikebana::detail::plan_text(planned.plan));
    for (const Choice choice : planned.plan) ++used[choice];
    CHECK(measured <= planned.predicted.peak);
    CHECK(static_cast<double>(planned.predicted.peak) <= 1.05 * static_cast<double>(measured));
    CHECK(planned.predicted.peak <= bytes);
  }
  CHECK(used.size() > 1);  // which ones depends on times; below are all of them
  for (std::size_t shift = 0; shift < 4; ++shift) {
    const Plan plan = mixture(mechanism.planned().planned, shift);
    CAPTURE(ikebana::detail::plan_text(plan));
    mechanism.force(plan);
    const std::int64_t measured = *trainer.step(input).peak_bytes;
    const std::int64_t predicted = ikebana::detail::predict(mechanism.planned().planned, plan).peak;
    CHECK(measured <= predicted);
    CHECK(static_cast<double>(predicted) <= 1.05 * static_cast<double>(measured));
  }
}

/// Returns the largest predicted peak over the measured one, for budgets from the smallest to the
/// one in which all is kept.
template <class... Policies>
double sweep(Kind kind, std::int64_t rows_of_each) {
  auto model = seeded([&] { return Zoo(kind); });
  Trainer<Zoo, AdamW, Word, Observe<Memory>, Policies...> trainer(model, Word{.limit = GiB(1)});
  auto& mechanism = trainer.template mechanism<Word>();
  const Rows batch = class_batches(1, rows_of_each, width, classes)[0];
  for (int i = 0; i < 2; ++i) trainer.step(batch);
  const std::int64_t high = mechanism.planned().predicted.peak;
  const std::int64_t low = smallest_budget(mechanism.planned().planned) + KiB(1);
  double largest = 0;
  for (std::int64_t b = 0; b < 20; ++b) {
    const std::int64_t bytes = low + (high - low) * b / 19;
    trainer.template get<Word>().limit = bytes;
    const std::int64_t measured = *trainer.step(batch).peak_bytes;
    CHECK(measured <= bytes);
    largest = std::max(largest, static_cast<double>(mechanism.planned().predicted.peak) /
                                    static_cast<double>(measured));
  }
  return largest;
}

TEST_CASE("budget: it is kept with units run twice, in units, under autocast, accumulated") {
  CHECK(sweep(Kind::Twice, 1024) < 1.05);
  CHECK(sweep(Kind::Nested, 1024) < 1.05);
  CHECK(sweep<Accumulate<2>>(Kind::Twice, 1024) < 1.05);
  CHECK(sweep<Precision<BF16>>(Kind::Twice, 1024) < 1.1);
}

/// Returns the smallest budget that a refusal names.
std::int64_t least_of(const std::string& text) {
  const std::string least = "needs at least ";
  REQUIRE(test::contains(text, least));
  return std::stoll(text.substr(text.find(least) + least.size()));
}

TEST_CASE("budget: where no plan is within it, the error has the smallest that would do") {
  Trainer<Bench, AdamW, Word> trainer(chain(8), Word{.limit = GiB(1)});
  const at::Tensor input = rows();
  for (int i = 0; i < 2; ++i) trainer.step(input);
  const Tensors before = parameters_of(trainer.model());
  auto refusal = [&](std::int64_t bytes) {
    trainer.get<Word>().limit = bytes;
    return test::message_of<OutOfMemory>([&] { trainer.step(input); });
  };
  refusal(1000);  // what a step keeps after it is undone is there from now on
  const std::string text = refusal(1000);
  CHECK(test::contains(text, "Checkpoint<Budget>: limit is 1000 bytes, and a step with"));
  const std::int64_t low = least_of(text);
  CHECK(test::contains(refusal(low - 1), "needs at least " + std::to_string(low) + " bytes"));
  CHECK(test::same_bits(parameters_of(trainer.model()), before));
  CHECK(trainer.steps() == 2);
  CHECK(refusal(low) == "");
  CHECK(trainer.steps() == 3);
  trainer.get<Word>().limit = 0;
  CHECK(test::contains(test::message_of<BadValue>([&] { trainer.step(input); }),
                       "Checkpoint<Budget<>>: limit is 0; it must be 1 or more"));
}

/// Every other unit computes 200 operators more, and keeps one tensor more.
Bench uneven_chain() {
  std::vector<Work> works;
  for (std::size_t i = 0; i < 8; ++i)
    works.emplace_back([is_slow = i % 2 == 1](WorkImpl& w, at::Tensor x) {
      at::Tensor y = x * w.weight;
      for (int k = 0; k < (is_slow ? 6 : 5); ++k) y = at::tanh(y);
      for (int k = 0; k < (is_slow ? 200 : 0); ++k) y.detach().tan();
      return x + y;
    });
  return bench(works);
}

TEST_CASE("budget: a first step that even Full does not keep within it is undone at the budget") {
  bridge::MemoryCounter counter(at::kCPU);
  Bench model = uneven_chain();
  const at::Tensor input = rows();
  const std::int64_t bytes = counter.now() + 3 * static_cast<std::int64_t>(input.nbytes());
  Trainer<Bench, AdamW, Word> trainer(model, Word{.limit = bytes});
  const Tensors before = parameters_of(trainer.model());
  counter.reset_peak();
  const std::string text = test::message_of<OutOfMemory>([&] { trainer.step(input); });
  CHECK(counter.peak() <= bytes);
  CHECK(test::same_bits(parameters_of(trainer.model()), before));
  const std::int64_t low = least_of(text);  // found on tensors without memory
  CHECK(low > bytes);

  trainer.get<Word>().limit = low + KiB(1);
  const auto& mechanism = trainer.mechanism<Word>();
  auto step = [&] {
    counter.reset_peak();
    trainer.step(input);
    CHECK(counter.peak() <= low + KiB(1));
  };
  step();  // a step by a plan made from bytes alone, which measures times
  REQUIRE(mechanism.planned().is_dry);
  CHECK(mechanism.planned().has_times);
  const Plan first = mechanism.planned().plan;
  for (int i = 0; i < 2; ++i) step();  // steps by the plan that is fastest by these times
  const auto& planned = mechanism.planned();
  CHECK(planned.seconds.size() == 2);
  CHECK(planned.predicted.time > 0);
  CHECK(planned.predicted.time <= ikebana::detail::predict(planned.planned, first).time);
  const auto& units = planned.costs.units;
  for (std::size_t i = 0; i < units.size(); ++i) {
    CHECK(units[i].time == units[i % 2].time);  // the units that do the same
    CHECK(units[i].time_selective <= units[i].time);
  }
  CHECK(units[1].time > 5 * units[0].time);

  trainer.step(rows(16));  // and nothing is limited any more
  at::empty({2 * low}, at::kByte);
}

/// Trains at the smallest budget, by a plan that is made without values, and without a checkpoint.
template <class... Policies>
void check_smallest() {
  const at::Tensor input = rows();
  Trainer<Bench, AdamW, Policies...> plain(chain(8));
  Tensors means;
  for (int i = 0; i < 4; ++i) means.push_back(plain.step(input).mean());
  Bench model = chain(8);
  bridge::MemoryCounter counter(at::kCPU);
  Trainer<Bench, AdamW, Word, Policies...> trainer(model, Word{.limit = counter.now() + KiB(64)});
  const std::int64_t low =
      least_of(test::message_of<OutOfMemory>([&] { trainer.step(input); })) + KiB(1);
  trainer.template get<Word>().limit = low;
  for (std::size_t i = 0; i < means.size(); ++i) {
    counter.reset_peak();
    CHECK(test::same_bits(trainer.step(input).mean(), means[i]));
    CHECK(counter.peak() <= low);
    const auto& planned = trainer.template mechanism<Word>().planned();
    CHECK(planned.is_dry);
    CHECK(planned.has_times);
    CHECK(planned.has_plan == (i > 0));  // the first step's times make a plan of the second
  }
  CHECK(test::same_bits(parameters_of(trainer.model()), parameters_of(plain.model())));
}

TEST_CASE("budget: a plan that is made without values changes no bit") {
  check_smallest<>();
  check_smallest<Accumulate<2>>();
  check_smallest<Precision<BF16>>();
  // With instructions for FP16, kernels of several threads take memory that no plan foresees.
  if (ikebana::detail::has_half_instructions(ikebana::detail::HalfKind::FP16) &&
      at::get_num_threads() > 1)
    MESSAGE("not run: FP16, with the instructions of this processor");
  else check_smallest<Precision<FP16>, ClipGradNorm>();
}

/// Reads a value, so that it cannot be run without values.
struct ReadingImpl : torch::nn::Module {
  torch::nn::Linear layer{64, 64};
  ReadingImpl() { register_module("layer", layer); }
  template <class Run>
  Loss loss(Run&, const at::Tensor& input) {
    at::Tensor y = layer(input);
    if (y.sum().item<float>() > 1e30f) y = y * 2;
    return {y.sum(), y.numel()};
  }
};
TORCH_MODULE(Reading);

TEST_CASE("budget: where a model reads values, the smallest budget is not known") {
  bridge::MemoryCounter counter(at::kCPU);
  const at::Tensor input = at::zeros({64, 64});
  Trainer<Reading, SGD, Word> trainer(Reading(), Word{.limit = counter.now() + MiB(1)});
  const bridge::MemoryLimit limit(counter.now() + KiB(8));
  const std::string text = test::message_of<OutOfMemory>([&] { trainer.step(input); });
  CHECK(test::contains(text, "the limit of this process is"));  // a smaller one, not the budget's
  trainer.get<Word>().limit = counter.now() + KiB(4);
  CHECK(test::contains(test::message_of<OutOfMemory>([&] { trainer.step(input); }),
                       "needs more, even where every unit is recomputed by itself"));
}

TEST_CASE(
    "budget: with Accumulate<Fit<>> microbatches are made smaller until a plan is within it") {
  bridge::MemoryCounter counter(at::kCPU);
  const at::Tensor input = rows();
  using Recipe = Trainer<Bench, AdamW, Word, Accumulate<Fit<>>>;
  Bench model = chain(8);
  const std::int64_t bytes = counter.now() + 5 * static_cast<std::int64_t>(input.nbytes());
  Recipe trainer(model, Word{.limit = bytes}, Accumulate<Fit<>>{.max = 64, .limit = bytes});
  std::int64_t microbatches = 0;
  for (int step = 0; step < 3; ++step) {
    counter.reset_peak();
    microbatches = trainer.step(input).microbatches;
    CHECK(counter.peak() <= bytes);
  }
  CHECK(microbatches > 1);
  CHECK(microbatches < 64);
  trainer.get<Accumulate<Fit<>>>().limit = 2 * bytes;
  CHECK(test::contains(test::message_of<BadValue>([&] { trainer.step(input); }),
                       "Both are planned within one limit"));
  trainer.get<Accumulate<Fit<>>>().limit = 0;
  CHECK(trainer.step(input).microbatches == microbatches);
}

/// Keeps all results until its loss is computed, so that a segment frees none of them before.
struct HoldingImpl : torch::nn::Module {
  using units = Units<Work>;
  std::vector<Work> works;
  explicit HoldingImpl(const Bench& chain) : works(chain->works) {
    for (std::size_t i = 0; i < works.size(); ++i)
      register_module("work" + std::to_string(i), works[i]);
  }
  template <class Run>
  Loss loss(Run& run, const at::Tensor& input) {
    std::vector<at::Tensor> all{input};
    for (auto& work : works) all.push_back(run(work, all.back()));
    return {(all.back() * all.back()).sum(), input.numel()};
  }
};
TORCH_MODULE(Holding);
TEST_CASE("budget: a segment frees no input that the model keeps") {
  auto freed = [](auto model) {
    Trainer<decltype(model), SGD, Word> trainer(model, Word{.limit = GiB(1)});
    for (int i = 0; i < 2; ++i) trainer.step(rows());
    std::vector<std::int64_t> all;
    for (const auto& unit : trainer.template mechanism<Word>().planned().planned.units)
      all.push_back(unit.input);
    return all;
  };
  const auto one = static_cast<std::int64_t>(rows().nbytes());
  CHECK((freed(chain(4)) == std::vector<std::int64_t>{0, one, one, 0}));
  CHECK((freed(Holding(chain(4))) == std::vector<std::int64_t>{0, 0, 0, 0}));
}

TEST_CASE("budget: activations alone are limited by ActivationBudget") {
  using Kept = Checkpoint<ActivationBudget<>>;
  Trainer<Bench, SGD, Kept> trainer(chain(8), Kept{.limit = GiB(1)});
  auto& mechanism = trainer.mechanism<Kept>();
  const at::Tensor input = rows();
  const auto one = static_cast<std::int64_t>(input.nbytes());
  for (int i = 0; i < 2; ++i) trainer.step(input);
  CHECK((mechanism.planned().plan == Plan(8, Keep)));
  CHECK(smallest_budget(mechanism.planned().planned) == 2 * one);  // the costs of the first and
                                                                   // last unit
  CHECK(mechanism.planned().inputs == 8 * one);
  std::int64_t time = 0;
  for (const std::int64_t bytes : {40 * one, 20 * one, 8 * one, 4 * one, 2 * one}) {
    trainer.get<Kept>().limit = bytes;
    trainer.step(input);
    CHECK(mechanism.planned().predicted.peak <= bytes);
    CHECK(mechanism.planned().predicted.time >= time);
    time = mechanism.planned().predicted.time;
  }
  trainer.get<Kept>().limit = 2 * one - 1;
  CHECK(test::contains(test::message_of<OutOfMemory>([&] { trainer.step(input); }),
                       "needs at least " + std::to_string(2 * one) + " bytes"));
}

}  // namespace guarantees::budget
