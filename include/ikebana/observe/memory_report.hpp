#pragma once
// What Observe<Memory> says of a step beyond its peak.
#include <array>
#include <concepts>
#include <ikebana/bridge/memory_facts.hpp>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <ostream>

namespace ikebana {

/// Bytes of one unit in a step. What belongs to no unit is the root's, whose name is empty.
struct UnitPeak {
  std::string name;               ///< as `named_modules` has it
  std::int64_t activations = 0;   ///< that its forward leaves for backward, in the first microbatch
  std::int64_t forward_peak = 0;  ///< most in use while its forward computed; 0: it did not
  std::int64_t backward_peak = 0;  ///< the same of its backward; only on a CPU, elsewhere 0
};

/// The memory of one step on one device, in bytes, all trainers and tensors of the process
/// included. What a recompute of Checkpoint allocates counts as backward.
struct MemoryReport {
  std::string device = "cpu";      ///< as c10::Device::str has it
  std::int64_t before = 0;         ///< in use when the step began
  std::int64_t after = 0;          ///< in use when it had ended, its report and outputs included
  std::int64_t peak = 0;           ///< most in use at once, as `Report::peak_bytes`
  Phase peak_phase = Phase::Data;  ///< in which the peak is
  std::size_t peak_unit = 0;  ///< index in `units` of whose forward or backward computed at the
                              ///< peak; 0: no unit's. Of a backward only on a CPU.
  std::array<std::int64_t, 4> phase_peaks = {};  ///< by Phase
  std::vector<UnitPeak> units = {};  ///< under `by_unit`, in the order of registration, root first
  MemoryFacts facts = {};            ///< of the machine or the device, when the step had ended
  /// Bytes that became free by the clean-up before this step; no value: there was none.
  std::optional<std::int64_t> cleaned_up = {};

  /// The most bytes in use at once in a phase.
  std::int64_t peak_of(Phase phase) const { return phase_peaks[static_cast<std::size_t>(phase)]; }
  /// For people, with a row for each unit; also by `<<`.
  template <class = void>
  std::string table() const;
};

namespace detail {

/// `  peak                 45.7 MiB`
inline std::string bytes_row(const std::string& name, std::int64_t bytes) {
  return "  " + left(name, 24) + right(short_bytes(bytes), 12);
}
/// The lines of what is known.
template <class = void>
std::string facts_rows(const MemoryFacts& facts) {
  std::string text;
  auto add = [&](const char* name, const std::optional<std::int64_t>& bytes) {
    if (bytes) text += bytes_row(name, *bytes) + "\n";
  };
  if (facts.free && facts.total)
    text += bytes_row("free", *facts.free) + "  of " + short_bytes(*facts.total) + "\n";
  add("resident", facts.resident);
  add("reserved", facts.reserved);
  add("free within used blocks", facts.inactive);
  if (facts.retries.value_or(0) > 0)
    text += "  the cache was emptied " + std::to_string(*facts.retries) +
            " times to find room for an allocation\n";
  return text;
}
template <class = void>
std::string unit_peak_rows(const std::vector<UnitPeak>& units) {
  std::string text = "  " + left("unit", 34) + right("activations", 13) +
                     right("forward peak", 15) + right("backward peak", 15) + "\n";
  auto peak = [](std::int64_t bytes) { return right(bytes == 0 ? "-" : short_bytes(bytes), 15); };
  for (const UnitPeak& unit : units)
    text += "  " + left(unit.name.empty() ? "(no unit's)" : unit.name, 34) +
            right(short_bytes(unit.activations), 13) + peak(unit.forward_peak) +
            peak(unit.backward_peak) + "\n";
  return text;
}

}  // namespace detail

template <class>
std::string MemoryReport::table() const {
  using detail::bytes_row;
  std::string text = "memory of a step on " + device + "\n" + bytes_row("before", before) + "\n";
  for (const Phase phase : {Phase::Data, Phase::Forward, Phase::Backward, Phase::Optimizer})
    text += bytes_row(std::string("peak in ") + detail::phase_name(phase), peak_of(phase)) + "\n";
  text += bytes_row("peak", peak) + "  in " + detail::phase_name(peak_phase);
  if (peak_unit != 0) text += " of " + units[peak_unit].name;
  text += "\n" + bytes_row("after", after) + "\n" + detail::facts_rows(facts);
  if (cleaned_up) text += bytes_row("cleaned up before", *cleaned_up) + "\n";
  return units.empty() ? text : text + detail::unit_peak_rows(units);
}

template <std::same_as<MemoryReport> Report>
std::ostream& operator<<(std::ostream& out, const Report& report) {
  return out << report.table();
}

}  // namespace ikebana
