// Checkpoint<Budget>: no plan changes a bit, none exceeds its budget, and each does what it says.
#include "test.hpp"

#include "counting.hpp"
#include "work.hpp"
#include "zoo.hpp"

namespace laws::budget {

using ikebana::detail::Choice, ikebana::detail::Costs, ikebana::detail::Plan;
using ikebana::detail::smallest_budget;
using enum ikebana::detail::Choice;
using Word = Checkpoint<Budget<>>;

/// Units with a product, and more tensors that backward needs behind it.
Bench chain(std::size_t n) {
  std::vector<Work> works;
  for (std::size_t i = 0; i < n; ++i)
    works.emplace_back([](WorkImpl& w, at::Tensor x) {
      at::Tensor y = at::mm(x * w.weight, at::eye(4) * 0.5);
      for (int k = 0; k < 5; ++k) y = at::tanh(y);
      return x + y;
    });
  return bench(works);
}
at::Tensor rows(std::int64_t n = 2048) { return torch::linspace(-1, 1, 4 * n).view({n, 4}); }

/// The choice of each unit, shifted by `shift`, where the unit allows it.
Plan mixture(const Costs& costs, std::size_t shift) {
  Plan plan;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    Choice choice = static_cast<Choice>((i + shift) % 4);
    const bool follows =
        i > 0 && (plan[i - 1] == Full || plan[i - 1] == Joined) && costs.units[i - 1].is_measured;
    if (!costs.units[i].allows(choice) || (choice == Joined && !follows)) choice = Full;
    plan.push_back(choice);
  }
  return plan;
}

/// A training whose steps use other plans; the first is measured.
template <class Model, class... Policies>
Trace by_mixtures(Model model, const std::vector<Rows>& batches, std::map<Choice, int>& used) {
  Trainer<Model, SGD, Word, Policies...> trainer(model, SGD{.lr = 0.01, .momentum = 0.5},
                                                 Word{.bytes = GiB(1)});
  auto& mechanism = trainer.template mechanism<Word>();
  torch::manual_seed(11);
  Trace trace;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (i > 1) {
      const Plan plan = mixture(mechanism.planned().planned, i);
      for (const Choice choice : plan) ++used[choice];
      mechanism.force(plan);
    }
    trace.push_back(trainer.step(batches[i]).mean());
  }
  for (auto& p : parameters_of(trainer.model())) trace.push_back(p);
  for (const auto& b : ikebana::detail::module_of(trainer.model())->buffers())
    trace.push_back(b.detach().clone());
  trace.push_back(torch::rand({4}));
  return trace;
}
template <class... Policies>
void same_bits_in_zoo(std::map<Choice, int>& used) {
  const auto batches = class_batches(6, 6, width, classes);
  for (int k = 0; k < static_cast<int>(Kind::count); ++k) {
    const Kind kind = static_cast<Kind>(k);
    INFO("model: " << name_of(kind));
    auto zoo = [&] { return seeded([&] { return Zoo(kind); }); };
    const Trace without =
        trained(Trainer<Zoo, SGD, Policies...>(zoo(), SGD{.lr = 0.01, .momentum = 0.5}), batches);
    CHECK(moved(without, 6));
    CHECK(test::same_bits(by_mixtures<Zoo, Policies...>(zoo(), batches, used), without));
  }
}

TEST_CASE("budget: no plan changes a bit, whatever a unit does") {
  std::map<Choice, int> used;
  SUBCASE("FP32") { same_bits_in_zoo<>(used); }
  SUBCASE("BF16, accumulated") { same_bits_in_zoo<Precision<BF16>, Accumulate<3>>(used); }
  CHECK(used.size() == 4);
}

TEST_CASE("budget: each unit is computed as often as the plan says, kept products once") {
  Bench model = chain(8);
  Trainer<Bench, SGD, Word> trainer(model, Word{.bytes = GiB(1)});
  auto& mechanism = trainer.mechanism<Word>();
  for (int i = 0; i < 2; ++i) trainer.step(rows());
  CHECK((mechanism.planned().plan == Plan(8, Keep)));
  auto products = [&](const Plan& plan) {
    mechanism.force(plan);
    for (auto& work : model->works) work->begun = 0;
    test::Counting counting;
    {
      bridge::OperatorScope scope(counting);
      trainer.step(rows());
    }
    for (std::size_t i = 0; i < 8; ++i) CHECK(model->works[i]->begun == (plan[i] == Keep ? 1 : 2));
    return counting.seen["aten::mm"];
  };
  const auto kept = products(Plan(8, Keep));
  CHECK(products({Keep, Selective, Full, Joined, Joined, Keep, Selective, Full}) == kept + 4);
  CHECK(products(Plan(8, Selective)) == kept);
  CHECK(products({Full, Joined, Joined, Joined, Joined, Joined, Joined, Joined}) == kept + 8);
}

TEST_CASE("budget: over twenty budgets no planned step exceeds its own, and peaks are predicted") {
  Trainer<Bench, AdamW, Word, Observe<Memory>> trainer(chain(8), Word{.bytes = GiB(1)});
  auto& mechanism = trainer.mechanism<Word>();
  const at::Tensor input = rows();
  for (int i = 0; i < 2; ++i) trainer.step(input);
  const std::int64_t high = mechanism.planned().predicted.peak;
  const std::int64_t low = smallest_budget(mechanism.planned().planned);
  CHECK(low < high / 2);
  std::map<Choice, int> used;
  for (std::int64_t b = 0; b < 20; ++b) {
    const std::int64_t bytes = low + (high - low) * b / 19;
    trainer.get<Word>().bytes = bytes;
    const std::int64_t measured = *trainer.step(input).peak_bytes;
    const auto& planned = mechanism.planned();
    CAPTURE(ikebana::detail::plan_text(planned.plan));
    for (const Choice choice : planned.plan) ++used[choice];
    CHECK(measured <= planned.predicted.peak);
    CHECK(static_cast<double>(planned.predicted.peak) <= 1.05 * static_cast<double>(measured));
    CHECK(planned.predicted.peak <= bytes);
  }
  CHECK(used.size() == 4);
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

/// Budgets from the smallest to that in which all is kept: the largest predicted over measured
/// peak.
template <class... Policies>
double sweep(Kind kind, std::int64_t rows_of_each) {
  auto model = seeded([&] { return Zoo(kind); });
  Trainer<Zoo, AdamW, Word, Observe<Memory>, Policies...> trainer(model, Word{.bytes = GiB(1)});
  auto& mechanism = trainer.template mechanism<Word>();
  const Rows batch = class_batches(1, rows_of_each, width, classes)[0];
  for (int i = 0; i < 2; ++i) trainer.step(batch);
  const std::int64_t high = mechanism.planned().predicted.peak;
  const std::int64_t low = smallest_budget(mechanism.planned().planned) + KiB(1);
  double largest = 0;
  for (std::int64_t b = 0; b < 20; ++b) {
    const std::int64_t bytes = low + (high - low) * b / 19;
    trainer.template get<Word>().bytes = bytes;
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
  CHECK(sweep<Precision<BF16>>(Kind::Twice, 1024) < 1.1);  // casts of weights are cached
}

TEST_CASE("budget: where no plan is within it, the error has the smallest that would do") {
  Trainer<Bench, AdamW, Word> trainer(chain(8), Word{.bytes = GiB(1)});
  const at::Tensor input = rows();
  for (int i = 0; i < 2; ++i) trainer.step(input);
  const Tensors before = parameters_of(trainer.model());
  auto refusal = [&](std::int64_t bytes) {
    trainer.get<Word>().bytes = bytes;
    return test::message_of<OutOfMemory>([&] { trainer.step(input); });
  };
  const std::string text = refusal(1000), least = "needs at least ";
  CHECK(test::contains(text, "Checkpoint<Budget>: bytes is 1000 bytes, and a step with"));
  REQUIRE(test::contains(text, least));
  const std::int64_t low = std::stoll(text.substr(text.find(least) + least.size()));
  CHECK(test::contains(refusal(low - 1), least + std::to_string(low) + " bytes"));
  CHECK(test::same_bits(parameters_of(trainer.model()), before));
  CHECK(trainer.steps() == 2);
  CHECK(refusal(low) == "");
  CHECK(trainer.steps() == 3);
  trainer.get<Word>().bytes = 0;
  CHECK(test::contains(test::message_of<BadValue>([&] { trainer.step(input); }),
                       "Checkpoint<Budget<>>: bytes is 0; it must be 1 or more"));
}

TEST_CASE("budget: a first step that even Full does not keep within it is undone at the budget") {
  bridge::MemoryCounter counter(at::kCPU);
  Bench model = chain(8);
  const at::Tensor input = rows();
  const std::int64_t bytes = counter.now() + 3 * static_cast<std::int64_t>(input.nbytes());
  Trainer<Bench, SGD, Word> trainer(model, Word{.bytes = bytes});
  const Tensors before = parameters_of(trainer.model());
  counter.reset_peak();
  const std::string text = test::message_of<OutOfMemory>([&] { trainer.step(input); });
  CHECK(test::contains(text, "needs more, even where every unit is recomputed by itself"));
  CHECK(counter.peak() <= bytes);
  CHECK(test::same_bits(parameters_of(trainer.model()), before));
  trainer.step(rows(16));  // and nothing is limited any more
  at::empty({2 * bytes}, at::kByte);
}

TEST_CASE("budget: larger batches are measured anew, smaller ones use the plan that there is") {
  Bench model = chain(4);
  Trainer<Bench, SGD, Word> trainer(model, Word{.bytes = GiB(1)});
  auto recomputes = [&](auto batch) {
    for (auto& work : model->works) work->begun = 0;
    trainer.step(batch);
    return model->works[0]->begun - 1;
  };
  using Microbatches = std::vector<std::tuple<at::Tensor>>;
  CHECK(recomputes(rows(64)) == 3);  // two rehearsals
  CHECK(recomputes(rows(64)) == 0);
  CHECK(recomputes(rows(32)) == 0);
  CHECK(recomputes(rows(65)) == 3);
  CHECK(recomputes(rows(65)) == 0);
  CHECK(recomputes(rows(64)) == 0);
  // With gradients of another microbatch there is more in use.
  CHECK(recomputes(Microbatches{{rows(32)}, {rows(32)}}) == 1 + 2 * 3);
  CHECK(recomputes(Microbatches{{rows(32)}, {rows(16)}}) == 1);
  CHECK(recomputes(Microbatches{{rows(64)}, {rows(16)}}) == 1 + 2 * 3);
}

TEST_CASE("budget: where the plan for larger batches needs too much, smaller ones are measured") {
  Trainer<Bench, SGD, Word> trainer(chain(4), Word{.bytes = GiB(1)});
  auto& mechanism = trainer.mechanism<Word>();
  for (int i = 0; i < 2; ++i) trainer.step(rows());
  trainer.get<Word>().bytes = smallest_budget(mechanism.planned().planned) / 2;
  CHECK(test::contains(test::message_of<OutOfMemory>([&] { trainer.step(rows()); }), "at least"));
  for (int i = 0; i < 2; ++i) trainer.step(rows(512));
  CHECK((mechanism.planned().plan == Plan(4, Keep)));
}

TEST_CASE("budget: activations alone are limited by ActivationBudget") {
  using Kept = Checkpoint<ActivationBudget<>>;
  Trainer<Bench, SGD, Kept> trainer(chain(8), Kept{.bytes = GiB(1)});
  auto& mechanism = trainer.mechanism<Kept>();
  const at::Tensor input = rows();
  const auto one = static_cast<std::int64_t>(input.nbytes());
  for (int i = 0; i < 2; ++i) trainer.step(input);
  CHECK((mechanism.planned().plan == Plan(8, Keep)));
  CHECK(smallest_budget(mechanism.planned().planned) == 2 * one);  // of the first and last unit
  CHECK(mechanism.planned().inputs == 8 * one);
  std::int64_t time = 0;
  for (const std::int64_t bytes : {40 * one, 20 * one, 8 * one, 4 * one, 2 * one}) {
    trainer.get<Kept>().bytes = bytes;
    trainer.step(input);
    CHECK(mechanism.planned().predicted.peak <= bytes);
    CHECK(mechanism.planned().predicted.time >= time);
    time = mechanism.planned().predicted.time;
  }
  trainer.get<Kept>().bytes = 2 * one - 1;
  CHECK(test::contains(test::message_of<OutOfMemory>([&] { trainer.step(input); }),
                       "needs at least " + std::to_string(2 * one) + " bytes"));
}

TEST_CASE("budget: the description has the plan, and what it needs") {
  Trainer<Bench, SGD, Word> trainer(chain(4), Word{.bytes = GiB(1)});
  CHECK(test::contains(trainer.describe(), "{bytes=1073741824}"));
  for (int i = 0; i < 3; ++i) trainer.step(rows());
  const std::string text = trainer.describe();
  CHECK(test::contains(text, "{bytes=1073741824; Keep 0-3; peak "));
  CHECK(test::contains(text, ", recomputes 0 ms of "));
}

TEST_CASE("budget: sizes in bytes") {
  static_assert(KiB(1) == 1024 && MiB(1.5) == 3 << 19 && GiB(8) == std::int64_t{8} << 30);
  Trainer<Bench, SGD, Checkpoint<Budget<GiB(1)>>> trainer(chain(2));
  for (int i = 0; i < 2; ++i) trainer.step(rows());
  CHECK((trainer.mechanism<Checkpoint<Budget<GiB(1)>>>().planned().plan == Plan(2, Keep)));
}

}  // namespace laws::budget
