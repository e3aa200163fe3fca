#pragma once
// Defines what `rank_times` says of the ranks of a training.
#include <cstdint>
#include <ikebana/ranks/rank_group.hpp>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace ikebana {

/// The mean times of one rank over the measured steps, in seconds per step.
struct RankTime {
  std::int64_t rank = 0;  ///< the rank, from 0
  double step = 0;        ///< from the end of one step to the end of the next
  double compute = 0;     ///< the part of it in which this rank does not wait for others
  double waiting = 0;     ///< the part of it in which its host waits for messages of others
};

/// The times of all ranks, the same on each. `<<` prints its table.
struct RankTimesSummary {
  std::int64_t steps = 0;            ///< the steps that were measured
  std::vector<RankTime> ranks = {};  ///< the times of each rank, in the order of ranks
  /// The rank that waits least, if the others wait longer than it by 5 % of a step or more, over at
  /// least 5 steps, and by three standard errors of that difference, so that chance names none.
  std::optional<std::int64_t> slowest = {};
  /// The part of a step for which the others wait longer than the rank that waits least, from 0 to
  /// 1. It is the time that a step would save if that rank were as fast as the others.
  double share = 0;

  /// Returns a sentence, such as `rank 2 is the slowest: the others wait 31.0 % of the step for
  /// it`.
  std::string text() const;
  /// Returns a text for people, with a row for each rank, in milliseconds, and the sentence.
  std::string table() const;
  /// Returns lines of comma-separated values, in seconds, the titles first.
  std::string csv() const;
};

std::ostream& operator<<(std::ostream& out, const RankTimesSummary& summary);

namespace detail {

/// The time of a step, and how much of it a rank has waited, in seconds.
struct StepWait {
  double seconds = 0, waited = 0;
};
/// The steps of each rank.
using WaitsOfRanks = std::vector<std::vector<StepWait>>;

/// Exchanges the times of all ranks.
WaitsOfRanks exchanged_waits(RankGroup& group, const std::vector<StepWait>& own);
/// Returns the summary of the last steps that all ranks have.
RankTimesSummary rank_times_summary(const WaitsOfRanks& ranks);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/rank_times_summary.ipp>
#endif
