#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/observe/time_statistics.hpp>
#include <numeric>
#include <vector>

namespace ikebana::detail {

/// Returns a percentile of sorted times, which are not empty.
inline double percentile(const std::vector<double>& sorted, double percent) {
  const double place = percent / 100 * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

IKEBANA_INLINE std::string time_titles() {
  std::string text;
  for (const char* title : {"mean", "std", "median", "p95", "p99"}) text += right(title, 11);
  return text;
}

IKEBANA_INLINE std::string time_columns(const TimeStatistics& s) {
  std::string text;
  for (const double seconds : {s.mean, s.std, s.median, s.p95, s.p99})
    text += right(fixed(seconds * 1e3, 3), 11);
  return text;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE TimeStatistics time_statistics(std::span<const double> seconds) {
  for (const double one : seconds)
    if (!std::isfinite(one) || one < 0)
      throw BadValue("time_statistics: a time is " + std::to_string(one) +
                     " seconds. Give times that were measured.");
  if (seconds.empty()) return {};
  std::vector<double> sorted(seconds.begin(), seconds.end());
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<double>(sorted.size());
  const double mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / count;
  double squares = 0;
  for (const double one : sorted) squares += (one - mean) * (one - mean);
  return {.count = std::ssize(sorted),
          .mean = mean,
          .std = sorted.size() > 1 ? std::sqrt(squares / (count - 1)) : 0,
          .min = sorted.front(),
          .median = detail::percentile(sorted, 50),
          .p95 = detail::percentile(sorted, 95),
          .p99 = detail::percentile(sorted, 99),
          .max = sorted.back()};
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const TimeStatistics& s) {
  using detail::rounded;
  return out << "mean " << rounded(s.mean * 1e3) << " ms, std " << rounded(s.std * 1e3)
             << ", median " << rounded(s.median * 1e3) << ", p95 " << rounded(s.p95 * 1e3)
             << ", p99 " << rounded(s.p99 * 1e3) << ", of " << s.count << " calls";
}

}  // namespace ikebana
