#pragma once
// How much memory a step would take with one policy more.
#include <array>
#include <ikebana/estimate/result.hpp>
#include <ikebana/estimate/table.hpp>

namespace ikebana::detail {

/// A unit that a microbatch runs, and the bytes of its inputs that no earlier one was given.
struct UnitRun {
  std::size_t unit;
  std::int64_t inputs;
};

/// What is known of a step and its recipe besides the estimate.
struct StepFacts {
  std::array<std::int64_t, 4> peaks{};  ///< of each phase
  std::int64_t held = 0;                ///< between steps, with the optimizer's state
  std::int64_t after_backward = 0;      ///< with all gradients
  std::vector<UnitRun> unit_runs = {};  ///< in the order of forward
  std::int64_t microbatches = 1;
  std::int64_t rows = 0;             ///< of the batch
  bool ran_units = false;            ///< and no policy on checkpoint
  bool counts_microbatches = false;  ///< the recipe has Accumulate<N> or none, and takes one batch
  bool is_adamw = false;             ///< whose state counts as memory here
  bool masters_in_files = false;     ///< with gradients and the optimizer's state: no memory
  std::int64_t gathered = 0;         ///< at most, of what is not there between steps
  std::int64_t state_in_8_bits = 0;  ///< bytes, of what this rank updates
  std::int64_t stored = 0;           ///< bytes of the parameters that this rank stores
  std::int64_t parts = 1;            ///< in which parameters are cut among ranks
  std::int64_t ranks_of_fsdp = 0;    ///< on which the recipe could have Shard<FSDP>; else 0
};

/// The bytes of AdamW8bit's state of a parameter, with its default values.
inline std::int64_t state_in_8_bits(std::int64_t elements) {
  constexpr std::int64_t min_8bit_size = 4096, block_size = 256, scales = 2 * 4;
  if (elements < min_8bit_size) return elements * 8;
  return elements * 2 + (elements + block_size - 1) / block_size * scales;
}

struct Saving {
  std::string policy;
  std::int64_t peak;
};

/// The peaks of recipes with one policy more, from the bytes of one step, the smallest first.
/// Within 10 % of the peak without it, mostly within 4 %, and AdamW8bit within 2 %: a policy that
/// would save less than that is not among them.
class Savings {
 public:
  Savings(const Estimate& estimate, const StepFacts& facts) : e_(estimate), facts_(facts) {}

  std::vector<Saving> all() const {
    std::vector<Saving> list;
    auto add = [&](const std::string& policy, std::int64_t peak, std::int64_t percent = 10) {
      if (peak <= e_.peak / 100 * (100 - percent)) list.push_back({policy, peak});
    };
    // Of what is left in memory then, copies of parameters are a part that is not known.
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

 private:
  std::int64_t of_passes() const { return std::max(facts_.peaks[1], facts_.peaks[2]); }
  std::int64_t of_update() const { return std::max(facts_.peaks[0], facts_.peaks[3]); }
  /// Where backward ends, all gradients are there, and the last units are.
  std::int64_t least() const {
    return std::max(of_update(), facts_.after_backward + facts_.gathered);
  }

  /// Units keep their inputs, and one is recomputed at a time: those before it have theirs then,
  /// and those after it their gradients.
  std::int64_t with_full() const {
    std::int64_t of_units = 0, gradients = 0, inputs = 0, most = 0;
    for (std::size_t u = 1; u < e_.units.size(); ++u) of_units += e_.units[u].activations;
    const bool arrive = facts_.microbatches == 1;  // and are not there before
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
  /// The rows of the largest microbatch, where there are so many times the present ones.
  std::int64_t largest_part(std::int64_t times) const {
    const std::int64_t parts = std::min(times * facts_.microbatches, facts_.rows);
    return parts > 0 ? (facts_.rows + parts - 1) / parts : 0;
  }
  /// Each pass works on half the rows, about; gradients of a unit, which it computes, are as large
  /// as before, and whole gradients of the former passes are there.
  std::int64_t with_twice_the_microbatches() const {
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
  /// On several ranks the update exchanges the scales of blocks, which may fail: it keeps copies of
  /// what it changes.
  std::int64_t with_8bit_state() const {
    const std::int64_t state = facts_.state_in_8_bits;
    const std::int64_t saved = std::max<std::int64_t>(0, e_.optimizer_state - state);
    if (e_.ranks == 1) return e_.peak - saved;
    return std::max(e_.peak, facts_.held + e_.gradients + facts_.stored + state) - saved;
  }
  /// Each rank stores its part of the parameters, of their state and of their gradients, gathers
  /// two units at a time, and computes as many rows as now.
  std::int64_t with_fsdp() const {
    auto without = [n = facts_.ranks_of_fsdp](std::int64_t bytes) { return bytes - bytes / n; };
    std::int64_t largest = 0;
    for (const UnitMemory& unit : e_.units) largest = std::max(largest, unit.parameters);
    const std::int64_t stored = without(e_.parameters + e_.optimizer_state);
    const std::int64_t passes = of_passes() - stored + std::min(2 * largest, e_.parameters);
    const std::int64_t last = (facts_.held + e_.gradients) / facts_.ranks_of_fsdp + 4 * largest;
    return std::max({passes, last, of_update() - stored - without(e_.gradients)});
  }

  const Estimate& e_;
  const StepFacts& facts_;
};

/// The peak of each phase.
inline std::string phase_rows(const StepFacts& facts) {
  std::string text;
  for (const Phase phase : {Phase::Data, Phase::Forward, Phase::Backward, Phase::Optimizer})
    if (const std::int64_t peak = facts.peaks[static_cast<std::size_t>(phase)]; peak > 0)
      text += "  " + left(std::string("peak in ") + phase_name(phase), 18) +
              right(short_bytes(peak), 12) + "\n";
  return text;
}

/// The estimate, and what would save memory, for an error.
inline std::string memory_text(const Estimate& estimate, const StepFacts& facts) {
  std::string text = "\nThe " + estimate.table();
  if (estimate.peak > 0)
    text = "\nA step in " + std::to_string(facts.microbatches) +
           (facts.microbatches == 1 ? " microbatch: " : " microbatches: ") + estimate.table();
  if (estimate.peak > 0) text += phase_rows(facts);
  const std::vector<Saving> all = Savings(estimate, facts).all();
  if (!all.empty()) text += "  with one of these the peak is about\n";
  for (const Saving& one : all)
    text += "    " + left(one.policy, 24) + right(short_bytes(one.peak), 12) + "\n";
  text.pop_back();
  return text;
}

}  // namespace ikebana::detail
