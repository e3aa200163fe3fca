// Checkpoint<Budget>: no plan changes a bit, each does what it says, and which batches have one.
#include "test.hpp"

#include "budget.hpp"
#include "counting.hpp"
#include "guarantees/zoo.hpp"

namespace guarantees::budget {

/// A training whose steps use other plans; the first is measured.
template <class Model, class... Policies>
Trace by_mixtures(Model model, const std::vector<Rows>& batches, std::map<Choice, int>& used) {
  Trainer<Model, SGD, Word, Policies...> trainer(model, SGD{.lr = 0.01, .momentum = 0.5},
                                                 Word{.limit = GiB(1)});
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
  Trainer<Bench, SGD, Word> trainer(model, Word{.limit = GiB(1)});
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

TEST_CASE("budget: larger batches are measured anew, smaller ones use the plan that there is") {
  Bench model = chain(4);
  Trainer<Bench, SGD, Word> trainer(model, Word{.limit = GiB(1)});
  auto recomputes = [&](auto batch) {
    for (auto& work : model->works) work->begun = 0;
    trainer.step(batch);
    return model->works[0]->begun - 1;
  };
  using Microbatches = std::vector<std::tuple<at::Tensor>>;
  CHECK(recomputes(rows(64)) == 6);  // five rehearsals
  CHECK(recomputes(rows(64)) == 0);
  CHECK(recomputes(rows(32)) == 0);
  CHECK(recomputes(rows(65)) == 6);
  CHECK(recomputes(rows(65)) == 0);
  CHECK(recomputes(rows(64)) == 0);
  // With gradients of another microbatch there is more in use.
  CHECK(recomputes(Microbatches{{rows(32)}, {rows(32)}}) == 1 + 2 * 6);
  CHECK(recomputes(Microbatches{{rows(32)}, {rows(16)}}) == 1);
  CHECK(recomputes(Microbatches{{rows(64)}, {rows(16)}}) == 1 + 2 * 6);
}

TEST_CASE("budget: where the plan for larger batches needs too much, smaller ones are measured") {
  Trainer<Bench, SGD, Word> trainer(chain(4), Word{.limit = GiB(1)});
  auto& mechanism = trainer.mechanism<Word>();
  for (int i = 0; i < 2; ++i) trainer.step(rows());
  trainer.get<Word>().limit = smallest_budget(mechanism.planned().planned) / 2;
  CHECK(test::contains(test::message_of<OutOfMemory>([&] { trainer.step(rows()); }), "at least"));
  for (int i = 0; i < 2; ++i) trainer.step(rows(256));
  CHECK((mechanism.planned().plan == Plan(4, Keep)));
}

TEST_CASE("budget: the description has the plan, and what it needs") {
  Trainer<Bench, SGD, Word> trainer(chain(4), Word{.limit = GiB(1)});
  CHECK(test::contains(trainer.describe(), "{limit=1073741824}"));
  for (int i = 0; i < 3; ++i) trainer.step(rows());
  const std::string text = trainer.describe();
  CHECK(test::contains(text, "{limit=1073741824; Keep 0-3; peak "));
  CHECK(test::contains(text, ", recomputes 0 ms of "));
}

TEST_CASE("budget: sizes in bytes") {
  static_assert(KiB(1) == 1024 && MiB(1.5) == 3 << 19 && GiB(8) == std::int64_t{8} << 30);
  Trainer<Bench, SGD, Checkpoint<Budget<GiB(1)>>> trainer(chain(2));
  for (int i = 0; i < 2; ++i) trainer.step(rows());
  CHECK((trainer.mechanism<Checkpoint<Budget<GiB(1)>>>().planned().plan == Plan(2, Keep)));
}

}  // namespace guarantees::budget
