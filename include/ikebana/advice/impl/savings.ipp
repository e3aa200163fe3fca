#pragma once
#include <ikebana/advice/result.hpp>
#include <ikebana/advice/savings.hpp>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::int64_t state_in_8_bits(std::int64_t elements) {
  constexpr std::int64_t min_8bit_size = 4096, block_size = 256, scales = 2 * 4;
  if (elements < min_8bit_size) return elements * 8;
  return elements * 2 + (elements + block_size - 1) / block_size * scales;
}

IKEBANA_INLINE std::vector<Saving> Savings::all() const {
  std::vector<Saving> list;
  auto add = [&](const std::string& policy, std::int64_t peak, std::int64_t percent = 10) {
    if (peak <= e_.peak / 100 * (100 - percent)) list.push_back({policy, peak});
  };
  // With masters in files the rest in memory includes copies of parameters, whose size is not
  // known.
  if (facts_.ran_units && !facts_.masters_in_files) add("Checkpoint<Full>", with_full());
  if (facts_.counts_microbatches && largest_part(2) < largest_part(1)) {
    add("Accumulate<" + std::to_string(2 * facts_.microbatches) + ">",
        with_twice_the_microbatches());
  }
  if (facts_.is_adamw) add("AdamW8bit", with_8bit_state(), 2);
  if (facts_.ranks_of_fsdp > 1 && facts_.microbatches == 1)
    add("Shard<FSDP>, on " + std::to_string(facts_.ranks_of_fsdp) + " ranks", with_fsdp());
  std::stable_sort(list.begin(), list.end(),
                   [](const Saving& a, const Saving& b) { return a.peak < b.peak; });
  return list;
}

IKEBANA_INLINE std::int64_t Savings::least() const {
  return std::max(of_update(), facts_.after_backward + facts_.gathered);
}

IKEBANA_INLINE std::int64_t Savings::with_full() const {
  std::int64_t of_units = 0, gradients = 0, inputs = 0, most = 0;
  for (std::size_t u = 1; u < e_.units.size(); ++u) of_units += e_.units[u].activations;
  const bool arrive =
      facts_.microbatches == 1;  // gradients arrive during this backward, and none is there before
  for (const UnitRun& run : facts_.unit_runs)
    if (arrive) gradients += e_.units[run.unit].gradients;
  for (const UnitRun& run : facts_.unit_runs) {
    const UnitMemory& unit = e_.units[run.unit];
    if (arrive) gradients -= unit.gradients;
    inputs += run.inputs;
    most = std::max(most, inputs + unit.activations + gradients);
  }
  return std::max(least(), of_passes() - std::max<std::int64_t>(0, of_units - most));
}

IKEBANA_INLINE std::int64_t Savings::largest_part(std::int64_t times) const {
  const std::int64_t parts = std::min(times * facts_.microbatches, facts_.rows);
  return parts > 0 ? (facts_.rows + parts - 1) / parts : 0;
}

IKEBANA_INLINE std::int64_t Savings::with_twice_the_microbatches() const {
  const std::int64_t gradients = facts_.masters_in_files ? 0 : e_.gradients * facts_.parts,
                     fixed = facts_.held + facts_.gathered;
  std::int64_t of_a_unit = 0;
  for (const UnitMemory& unit : e_.units) of_a_unit = std::max(of_a_unit, unit.gradients);
  const std::int64_t there = fixed + of_a_unit + (facts_.microbatches > 1 ? gradients : 0);
  const std::int64_t of_rows = std::max<std::int64_t>(0, of_passes() - there);
  const std::int64_t fewer =
      fixed + gradients + of_a_unit + of_rows * largest_part(2) / largest_part(1);
  return std::max(least(), std::min(fewer, of_passes()));
}

IKEBANA_INLINE std::int64_t Savings::with_8bit_state() const {
  const std::int64_t state = facts_.state_in_8_bits;
  const std::int64_t saved = std::max<std::int64_t>(0, e_.optimizer_state - state);
  if (e_.ranks == 1) return e_.peak - saved;
  return std::max(e_.peak, facts_.held + e_.gradients + facts_.stored + state) - saved;
}

IKEBANA_INLINE std::int64_t Savings::with_fsdp() const {
  auto without = [n = facts_.ranks_of_fsdp](std::int64_t bytes) { return bytes - bytes / n; };
  std::int64_t largest = 0;
  for (const UnitMemory& unit : e_.units) largest = std::max(largest, unit.parameters);
  const std::int64_t stored = without(e_.parameters + e_.optimizer_state);
  const std::int64_t passes = of_passes() - stored + std::min(2 * largest, e_.parameters);
  const std::int64_t last = (facts_.held + e_.gradients) / facts_.ranks_of_fsdp + 4 * largest;
  return std::max({passes, last, of_update() - stored - without(e_.gradients)});
}

/// Returns the peak of each phase.
inline std::string phase_rows(const StepFacts& facts) {
  std::string text;
  for (const Phase phase : {Phase::Data, Phase::Forward, Phase::Backward, Phase::Optimizer})
    if (const std::int64_t peak = facts.peaks[static_cast<std::size_t>(phase)]; peak > 0)
      text += "  " + left(std::string("peak in ") + phase_name(phase), 18) +
              right(short_bytes(peak), 12) + "\n";
  return text;
}

IKEBANA_INLINE std::string memory_text(const Estimate& estimate, const StepFacts& facts) {
  std::string text = "\nA step in " + std::to_string(facts.microbatches) +
                     (facts.microbatches == 1 ? " microbatch: " : " microbatches: ") +
                     estimate.table() + phase_rows(facts);
  const std::vector<Saving> all = Savings(estimate, facts).all();
  if (!all.empty()) text += "  with one of these the peak is about\n";
  for (const Saving& one : all)
    text += "    " + left(one.policy, 24) + right(short_bytes(one.peak), 12) + "\n";
  text.pop_back();
  return text;
}

}  // namespace ikebana::detail
