#pragma once
// Defines the report of Observe<Memory> about a step, beyond its peak.
#include <array>
#include <ikebana/bridge/memory_facts.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <ostream>

namespace ikebana {

/// Bytes of one unit in a step, or, if the model declares no units, of one module. Memory that
/// belongs to no unit is the root's, whose name is empty.
struct UnitPeak {
  std::string name;                ///< the name in `named_modules`
  std::int64_t activations = 0;    ///< the bytes that its forward leaves for backward, in the first
                                   ///< microbatch
  std::int64_t forward_peak = 0;   ///< the most bytes in use while its forward computed; 0 if it
                                   ///< did not compute
  std::int64_t backward_peak = 0;  ///< the most bytes in use while its backward computed; 0 except
                                   ///< on a CPU
};

/// The memory of one step on one device, in bytes, including all trainers and tensors of the
/// process. A recompute of Checkpoint counts as backward.
struct MemoryReport {
  std::string device = "cpu";      ///< the text of c10::Device::str
  std::int64_t before = 0;         ///< the bytes in use when the step began
  std::int64_t after = 0;          ///< the bytes in use when it had ended, including its report and
                                   ///< outputs
  std::int64_t peak = 0;           ///< the most bytes in use at once, as in `Report::peak_bytes`
  Phase peak_phase = Phase::Data;  ///< the phase in which the peak occurs
  /// Index in `units` of the unit whose forward or backward computed at the peak; 0: no unit's. A
  /// backward is known only on a CPU.
  std::size_t peak_unit = 0;
  std::array<std::int64_t, 4> phase_peaks = {};  ///< the peaks, by Phase
  std::vector<UnitPeak> units = {};  ///< the units under `by_unit`, in the order of registration,
                                     ///< the root first
  MemoryFacts facts = {};            ///< the memory of the machine or the device when the step had
                                     ///< ended
  /// Bytes that became free by the clean-up before this step; no value without a clean-up.
  std::optional<std::int64_t> cleaned_up = {};

  /// Returns the most bytes in use at once in a phase.
  std::int64_t peak_of(Phase phase) const { return phase_peaks[static_cast<std::size_t>(phase)]; }
  /// Returns a text for people, with a row for each unit. `<<` prints it.
  std::string table() const;
};

namespace detail {

/// Writes a line such as ` peak 45.7 MiB`.
std::string bytes_row(const std::string& name, std::int64_t bytes);
/// Returns a line for each fact that is known.
std::string facts_rows(const MemoryFacts& facts);

}  // namespace detail

std::ostream& operator<<(std::ostream& out, const MemoryReport& report);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/memory_report.ipp>
#endif
