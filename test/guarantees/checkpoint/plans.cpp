// The search for a plan of Checkpoint<Budget> finds what trying all plans finds.
#include "test.hpp"

#include <ikebana.hpp>
#include <random>

namespace guarantees::plans {

using ikebana::detail::best_plan, ikebana::detail::Choice, ikebana::detail::Costs;
using ikebana::detail::Plan, ikebana::detail::predict, ikebana::detail::Prediction;
using ikebana::detail::smallest_budget, ikebana::detail::UnitCosts;

struct Draw {
  std::mt19937 generator{1};
  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
  }
};

UnitCosts some_unit(Draw& draw, std::int64_t scale = 1) {
  UnitCosts unit;
  unit.joins = draw(0, 9) > 1, unit.is_measured = draw(0, 19) > 0;
  auto number = [&](std::int64_t low, std::int64_t high) { return scale * draw(low, high); };
  unit.input = number(0, 10), unit.result = unit.input + number(0, 2);
  unit.keep = number(20, 170), unit.selective = std::min(unit.keep, number(10, 170));
  unit.forward = number(50, 120), unit.after_forward = number(50, 90);
  unit.forward_keep = unit.forward + number(0, 80);
  unit.forward_selective = unit.forward + number(0, 40);
  unit.begin = number(40, 80), unit.rise = unit.keep + number(0, 30);
  unit.rise_selective = unit.rise + number(0, 10), unit.rise_whole = unit.rise + number(0, 15);
  unit.backward = unit.begin + unit.keep + number(0, 60);
  unit.unsaved = draw(0, 1) == 0 ? 0 : unit.input;
  unit.time = number(5, 100), unit.time_selective = std::min(unit.time, number(0, 100));
  unit.time_rest = number(0, 30);
  return unit;
}
/// Returns a chain of `n` units of so many kinds, of which each keeps its input.
Costs chain(Draw& draw, std::size_t n, std::size_t kinds, std::int64_t scale = 1) {
  std::vector<UnitCosts> of_kind;
  for (std::size_t i = 0; i < kinds; ++i) of_kind.push_back(some_unit(draw, scale));
  Costs costs;
  costs.fixed = scale * draw(0, 100);
  std::int64_t inputs = 0;
  for (std::size_t i = 0; i < n; ++i) {
    UnitCosts unit = of_kind[i % kinds];
    for (auto peak : {&UnitCosts::forward, &UnitCosts::forward_keep, &UnitCosts::forward_selective,
                      &UnitCosts::after_forward, &UnitCosts::begin, &UnitCosts::backward})
      unit.*peak += inputs;
    inputs += unit.input;
    costs.units.push_back(unit);
  }
  costs.units[0].joins = false;
  return costs;
}
bool is_valid(const Costs& costs, const Plan& plan) {
  for (std::size_t i = 0; i < plan.size(); ++i) {
    if (!costs.units[i].allows(plan[i])) return false;
    if (plan[i] != Choice::Joined) continue;
    if (i == 0 || !costs.units[i - 1].is_measured) return false;
    if (plan[i - 1] != Choice::Full && plan[i - 1] != Choice::Joined) return false;
  }
  return true;
}
/// Returns the needs of each valid plan of eight units.
std::vector<Prediction> all_plans(const Costs& costs) {
  std::vector<Prediction> all;
  Plan plan(8);
  for (unsigned k = 0; k < 1u << 16; ++k) {
    for (std::size_t i = 0; i < 8; ++i) plan[i] = static_cast<Choice>(k >> (2 * i) & 3);
    if (is_valid(costs, plan)) all.push_back(predict(costs, plan));
  }
  return all;
}

TEST_CASE("plans: the fastest within a budget is that of trying all, and so is the smallest") {
  Draw draw;
  std::map<Choice, int> used;
  for (const std::size_t kinds : {1, 2, 8, 8, 8}) {
    const Costs costs = chain(draw, 8, kinds);
    const auto all = all_plans(costs);
    auto [low, high] = std::minmax_element(
        all.begin(), all.end(), [](const auto& a, const auto& b) { return a.peak < b.peak; });
    CHECK(smallest_budget(costs) == low->peak);
    CHECK_FALSE(best_plan(costs, low->peak - 1));
    for (std::int64_t b = 0; b < 20; ++b) {
      const std::int64_t budget = low->peak + (high->peak - low->peak) * b / 19;
      std::int64_t fastest = std::numeric_limits<std::int64_t>::max();
      for (const Prediction& one : all)
        if (one.peak <= budget) fastest = std::min(fastest, one.time);
      const auto plan = best_plan(costs, budget);
      REQUIRE(plan);
      CHECK(is_valid(costs, *plan));
      CHECK(predict(costs, *plan).peak <= budget);
      CHECK(predict(costs, *plan).time == fastest);
      for (const Choice choice : *plan) ++used[choice];
    }
  }
  CHECK(used.size() == 4);
}

TEST_CASE("plans: where activations alone are limited, only what is kept counts") {
  Draw draw;
  for (const std::size_t kinds : {1, 8}) {
    Costs measured = chain(draw, 8, kinds);
    for (UnitCosts& unit : measured.units) unit.is_measured = true;
    const Costs costs = ikebana::detail::kept_alone(measured, 100);
    for (const Prediction& one : all_plans(costs)) REQUIRE(one.peak == 100 + one.kept);
    CHECK(smallest_budget(costs) <= 100);
    CHECK(predict(costs, *best_plan(costs, 1 << 20)).time == 0);
  }
}

TEST_CASE("plans: many units are planned within their budget, equal ones alike each time") {
  Draw draw;
  const std::size_t units = test::is_thorough() ? 200 : 100;
  for (const std::size_t kinds : {1, 3}) {
    const Costs costs = chain(draw, units, kinds, 4096);
    const std::int64_t low = smallest_budget(costs);
    const std::int64_t high = predict(costs, Plan(units, Choice::Full)).peak;
    std::int64_t before = std::numeric_limits<std::int64_t>::max();
    for (const std::int64_t budget : {low, (low + high) / 2, high}) {
      const auto plan = best_plan(costs, budget);
      REQUIRE(plan);
      const Prediction one = predict(costs, *plan);
      CHECK(one.peak <= budget);
      CHECK(one.time <= before);
      before = one.time;
      CHECK((*best_plan(costs, budget) == *plan));
    }
  }
}

TEST_CASE("plans: texts name runs of units with the same choice") {
  using enum Choice;
  CHECK(ikebana::detail::plan_text({Keep, Keep, Selective, Full, Full, Joined, Joined, Full}) ==
        "Keep 0-1, Selective 2, Full 3, segment 4-6, Full 7");
}

}  // namespace guarantees::plans
