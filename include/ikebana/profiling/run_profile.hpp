#pragma once
// Defines the profile of a training, which `profile_run` measures.
#include <filesystem>
#include <ikebana/observe/memory_report.hpp>
#include <ikebana/observe/phase_summary.hpp>
#include <ikebana/observe/profile_result.hpp>
#include <ikebana/observe/time_statistics.hpp>
#include <ikebana/observe/unit_summary.hpp>
#include <ikebana/profiling/advice.hpp>
#include <ikebana/profiling/conditions.hpp>
#include <ikebana/profiling/roofline.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

namespace ikebana {

/// The four measurements of a training, each over steps of its own, so that none disturbs another,
/// and what follows from them. `<<` prints `summary()`.
struct RunProfile {
  std::string recipe = {};     ///< the trainer's recipe
  Conditions conditions = {};  ///< what the times depend on

  // The baseline: the training as it is.
  std::vector<double> step_seconds = {};  ///< the time of each step, with waiting for its batch
  TimeStatistics step = {};               ///< their statistics
  TimeStatistics waiting = {};            ///< the time in which the loop waited for each batch
  double items_per_second = 0;            ///< items that the loss is summed over

  PhaseSummary phases = {};    ///< the phases of a step
  UnitSummary units = {};      ///< the units; empty: the recipe does not measure them
  ProfileResult profile = {};  ///< the operators of some steps
  KeyAverages operators = {};  ///< the same, added up by name
  MemoryReport memory = {};    ///< the memory of one step, by phase and by unit
  Roofline roofline = {};      ///< units and operators under the bounds of this machine

  std::string bound_by = {};        ///< what limits the training: `data`, `matrix products`
  std::vector<Advice> advice = {};  ///< what to change, the largest gain first
  std::vector<std::filesystem::path> files = {};  ///< the files that were written

  /// Returns the part of the time in which the loop waits for data, from 0 to 1.
  double share_of_data() const { return step.mean > 0 ? waiting.mean / step.mean : 0; }
  /// Returns a few lines: how much of the time waits for data, how busy the device is, what copies
  /// take, which three operators take the most time, and what to change.
  std::string summary() const;
};

std::ostream& operator<<(std::ostream& out, const RunProfile& profile);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/run_profile.ipp>
#endif
