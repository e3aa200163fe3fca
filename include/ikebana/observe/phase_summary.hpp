#pragma once
// Defines what Observe<Phases> says of the steps of a training.
#include <ikebana/hooks.hpp>
#include <ikebana/observe/time_statistics.hpp>
#include <span>
#include <string>
#include <vector>

namespace ikebana {

/// The times of one phase, over several steps.
struct PhaseTimes {
  std::string name = {};   ///< `forward`; the names are the fields of PhaseSeconds
  double share = 0;        ///< its part of all time, from 0 to 1
  TimeStatistics seconds;  ///< its seconds in each step
};

/// Where the time of a training went. `<<` prints its table.
struct PhaseSummary {
  std::vector<PhaseTimes> phases = {};  ///< the phases in which time was spent, in the order of
                                        ///< PhaseSeconds
  TimeStatistics step = {};             ///< all phases of each step, what lies between two steps
                                        ///< included
  std::int64_t left_out = 0;            ///< steps at the beginning that are not counted

  /// Returns the share of a phase of this name, and 0 if no time was spent in it.
  double share(const std::string& name) const;
  /// Returns a text for people, with a row for each phase, in milliseconds.
  std::string table() const;
  /// Returns lines of comma-separated values, with all statistics in seconds, the titles first.
  std::string csv() const;
};

std::ostream& operator<<(std::ostream& out, const PhaseSummary& summary);

namespace detail {

/// Returns the summary of these steps.
PhaseSummary phase_summary(std::span<const PhaseSeconds> steps, std::int64_t left_out);

}  // namespace detail

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/phase_summary.ipp>
#endif
