#pragma once
// Reads what an error says of the memory of a step, as numbers and words.
#include <ikebana/estimate.hpp>
#include <ikebana/estimate/explain.hpp>
#include <ikebana/run/dry_step.hpp>
#include <optional>
#include <sstream>

#include "test.hpp"

namespace test {

/// Returns the lines about a first step, or about a later one. They are the bytes of the inputs of
/// units, the peak, its place, and the bytes of gathered copies, and for each policy that would
/// save memory the peak with it. `alone(f)` calls `f` while no other thread computes, because a
/// fork that finds a lock held waits for it.
template <class Recipe, class Model, class Batch, class Alone, class... Values>
std::string explanation(const Model& model, const Batch& batch, bool is_first, const Alone& alone,
                        Values... values) {
  using Core = ikebana::Core<Model, typename Recipe::Recipe>;
  auto core = std::make_shared<Core>(model, ikebana::detail::Values<Values...>(values...));
  if (!is_first) ikebana::step(*core, batch);
  const ikebana::detail::TrainerView view = ikebana::detail::view_of(*core);
  const ikebana::detail::BatchView rows = ikebana::detail::batch_view(batch);
  ikebana::detail::StepMemory memory(view);
  auto dry = [&] { memory.run(rows, [&] { ikebana::step(*core, batch); }); };
  auto result = [&] {
    std::ostringstream lines;
    const ikebana::Estimate& estimate = memory.estimate(rows);
    std::int64_t inputs = 0;
    for (const auto& run : memory.facts().unit_runs) inputs += run.inputs;
    lines << inputs << " inputs\n" << estimate.peak << " ";
    lines << static_cast<int>(estimate.peak_phase) << estimate.peak_unit << " ";
    lines << estimate.gathered << "\n";
    for (const auto& one : ikebana::detail::Savings(estimate, memory.facts()).all())
      lines << one.peak << " " << one.policy << "\n";
    return lines.str();
  };
  std::optional<std::string> text;
  alone([&] {
    text = ikebana::detail::dry_step(core->step.dry, core->device, memory.ledger(), memory,
                                     view.pretend_ranks, dry, result);
  });
  return text.value_or("none");
}
template <class Recipe, class Model, class Batch, class... Values>
std::istringstream explained(const Model& model, const Batch& batch, bool is_first,
                             Values... values) {
  const auto alone = [](const auto& f) { f(); };
  const std::string text = explanation<Recipe>(model, batch, is_first, alone, values...);
  REQUIRE(text != "none");
  return std::istringstream(text);
}

/// Reads the second line. The peak, and the phase that has it, must be equal to an estimate's. If
/// there are several ranks, the unit is not compared, since a gradient's hook, such as DDP's, runs
/// in no unit's node.
inline double check_peak(std::istringstream& lines, const ikebana::Estimate& estimate,
                         double epsilon = 0.002) {
  const auto peak = static_cast<double>(estimate.peak);
  double own = 0;
  std::string where;
  std::int64_t gathered = 0;
  lines >> own >> where >> gathered;
  CHECK(gathered == estimate.gathered);
  CHECK(own == doctest::Approx(peak).epsilon(epsilon));
  const std::string phase = std::to_string(static_cast<int>(estimate.peak_phase));
  if (estimate.ranks == 1) CHECK(where == phase + estimate.peak_unit);
  else CHECK(where.substr(0, 1) == phase);
  return peak;
}

/// Reads the lines that follow. `real(policy)` is the peak of the recipe with that policy. Returns
/// how many policies are named.
template <class Real>
std::size_t check_savings(std::istringstream& lines, double peak, const Real& real) {
  std::size_t count = 0;
  for (std::int64_t bytes = 0; lines >> bytes; ++count) {
    std::string policy;
    std::getline(lines >> std::ws, policy);
    CAPTURE(policy);
    const auto own = static_cast<double>(bytes), of = static_cast<double>(real(policy));
    CHECK(std::abs(own - of) <= (policy == "AdamW8bit" ? 0.015 : 0.1) * peak);
    CHECK(of < peak);
  }
  return count;
}

}  // namespace test
