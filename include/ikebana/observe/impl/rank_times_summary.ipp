#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/observe/rank_times_summary.hpp>

namespace ikebana::detail {

IKEBANA_INLINE WaitsOfRanks exchanged_waits(RankGroup& group, const std::vector<StepWait>& own) {
  const std::string bytes(reinterpret_cast<const char*>(own.data()), own.size() * sizeof own[0]);
  WaitsOfRanks all;
  for (const std::string& one : exchange_in(group, "the times of ranks", bytes)) {
    all.emplace_back(one.size() / sizeof(StepWait));
    if (!one.empty()) std::memcpy(all.back().data(), one.data(), one.size());
  }
  return all;
}

/// Cuts all to the last steps, so that the same place is the same step on every rank.
inline std::vector<std::span<const StepWait>> same_steps(const WaitsOfRanks& ranks) {
  std::size_t steps = ranks[0].size();
  for (const auto& one : ranks) steps = std::min(steps, one.size());
  std::vector<std::span<const StepWait>> all;
  for (const auto& one : ranks) all.push_back(std::span(one).last(steps));
  return all;
}

/// For each step, by how many seconds the other ranks wait longer than `rank`, on average.
inline std::vector<double> longer_waits(const std::vector<std::span<const StepWait>>& ranks,
                                        std::size_t rank) {
  std::vector<double> longer(ranks[0].size());
  for (std::size_t i = 0; i < longer.size(); ++i) {
    double others = 0;
    for (std::size_t r = 0; r < ranks.size(); ++r)
      if (r != rank) others += ranks[r][i].waited;
    longer[i] = others / static_cast<double>(ranks.size() - 1) - ranks[rank][i].waited;
  }
  return longer;
}

inline double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double one : values) sum += one;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// Returns true if a mean of these values is not 0 by chance.
inline bool is_above_chance(const std::vector<double>& values) {
  constexpr std::size_t least_steps = 5;
  constexpr double standard_errors = 3;
  if (values.size() < least_steps) return false;
  const double mean = mean_of(values), n = static_cast<double>(values.size());
  double squares = 0;
  for (const double one : values) squares += (one - mean) * (one - mean);
  return mean > standard_errors * std::sqrt(squares / (n - 1) / n);
}

IKEBANA_INLINE RankTimesSummary rank_times_summary(const WaitsOfRanks& ranks) {
  const auto all = same_steps(ranks);
  RankTimesSummary summary{.steps = std::ssize(all[0])};
  double step = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    RankTime mean{.rank = static_cast<std::int64_t>(r)};
    for (const auto& [seconds, waited] : all[r]) mean.step += seconds, mean.waiting += waited;
    const auto n = static_cast<double>(std::max<std::size_t>(all[r].size(), 1));
    mean.step /= n, mean.waiting /= n, mean.compute = mean.step - mean.waiting;
    step += mean.step / static_cast<double>(all.size());
    summary.ranks.push_back(mean);
  }
  if (all.size() < 2 || summary.steps == 0) return summary;
  const auto least =
      std::min_element(summary.ranks.begin(), summary.ranks.end(),
                       [](const auto& a, const auto& b) { return a.waiting < b.waiting; });
  const auto longer = longer_waits(all, static_cast<std::size_t>(least->rank));
  summary.share = std::max(0.0, mean_of(longer) / step);
  constexpr double least_share = 0.05;
  if (summary.share >= least_share && is_above_chance(longer)) summary.slowest = least->rank;
  return summary;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::string RankTimesSummary::text() const {
  if (slowest)
    return "rank " + std::to_string(*slowest) + " is the slowest: the others wait " +
           detail::fixed(share * 100, 1) + " % of the step for it";
  if (steps == 0) return "no step was measured yet";
  return "no rank is slower than the others";
}

IKEBANA_INLINE std::string RankTimesSummary::table() const {
  using detail::right, detail::fixed;
  std::string text = "mean times of " + std::to_string(steps) + " steps in ms\n" +
                     right("rank", 6) + right("step", 12) + right("compute", 12) +
                     right("waiting", 12) + right("share", 10) + "\n";
  for (const RankTime& one : ranks)
    text += right(std::to_string(one.rank), 6) + right(fixed(one.step * 1e3, 3), 12) +
            right(fixed(one.compute * 1e3, 3), 12) + right(fixed(one.waiting * 1e3, 3), 12) +
            right(fixed(one.step > 0 ? one.waiting / one.step * 100 : 0, 1) + " %", 10) + "\n";
  return text + this->text() + "\n";
}

IKEBANA_INLINE std::string RankTimesSummary::csv() const {
  std::string text = "rank,steps,step,compute,waiting\n";
  for (const RankTime& one : ranks)
    text += std::to_string(one.rank) + "," + std::to_string(steps) + "," +
            detail::exact_text(one.step) + "," + detail::exact_text(one.compute) + "," +
            detail::exact_text(one.waiting) + "\n";
  return text;
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const RankTimesSummary& summary) {
  return out << summary.table();
}

}  // namespace ikebana
