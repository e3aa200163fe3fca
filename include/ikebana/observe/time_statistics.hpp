#pragma once
// Defines statistics of measured times.
#include <cstdint>
#include <ostream>
#include <span>
#include <string>

namespace ikebana {

/// Statistics of times, in seconds. Percentiles are interpolated between the two nearest times, as
/// `numpy.percentile` does. All are 0 if there is no time.
struct TimeStatistics {
  std::int64_t count = 0;  ///< the number of times
  double mean = 0;         ///< their mean
  double std = 0;          ///< their standard deviation, divided by `count - 1`; 0 for one time
  double min = 0;          ///< the shortest
  double median = 0;       ///< the 50th percentile
  double p95 = 0;          ///< the 95th percentile
  double p99 = 0;          ///< the 99th percentile
  double max = 0;          ///< the longest
};

/// Returns statistics of times in seconds. Throws BadValue for one that is not finite or below 0.
TimeStatistics time_statistics(std::span<const double> seconds);

/// Prints one line in milliseconds.
std::ostream& operator<<(std::ostream& out, const TimeStatistics& statistics);

namespace detail {

/// Returns the titles of `time_columns`, in milliseconds.
std::string time_titles();
/// Returns mean, std, median, p95 and p99 in milliseconds, each in a column of 11 characters.
std::string time_columns(const TimeStatistics& statistics);

}  // namespace detail

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/time_statistics.ipp>
#endif
