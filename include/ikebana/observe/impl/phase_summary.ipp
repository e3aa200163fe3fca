#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/observe/phase_clock.hpp>
#include <ikebana/observe/phase_summary.hpp>

namespace ikebana::detail {

IKEBANA_INLINE PhaseSummary phase_summary(std::span<const PhaseSeconds> steps,
                                          std::int64_t left_out) {
  PhaseSummary summary;
  summary.left_out = left_out;
  std::vector<double> times(steps.size()), all(steps.size());
  for (const auto& [name, seconds] : phase_fields) {
    for (std::size_t i = 0; i < steps.size(); ++i) all[i] += times[i] = steps[i].*seconds;
    const TimeStatistics statistics = time_statistics(times);
    if (statistics.max > 0) summary.phases.push_back({name, 0, statistics});
  }
  summary.step = time_statistics(all);
  for (PhaseTimes& phase : summary.phases)
    phase.share = summary.step.mean > 0 ? phase.seconds.mean / summary.step.mean : 0;
  return summary;
}

inline std::string phase_row(const std::string& name, double share, const TimeStatistics& times) {
  return "  " + left(name, 12) + right(fixed(share * 100, 1) + " %", 10) + time_columns(times) +
         "\n";
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE double PhaseSummary::share(const std::string& name) const {
  for (const PhaseTimes& phase : phases)
    if (phase.name == name) return phase.share;
  return 0;
}

IKEBANA_INLINE std::string PhaseSummary::table() const {
  std::string text = "time of " + std::to_string(step.count) + " steps in ms";
  if (left_out > 0) text += ", without the first " + std::to_string(left_out);
  text += "\n  " + detail::left("phase", 12) + detail::right("share", 10) + detail::time_titles() +
          "\n";
  for (const PhaseTimes& phase : phases)
    text += detail::phase_row(phase.name, phase.share, phase.seconds);
  return text + detail::phase_row("all", step.count > 0 ? 1 : 0, step);
}

IKEBANA_INLINE std::string PhaseSummary::csv() const {
  std::string text = "phase,share,count,mean,std,min,median,p95,p99,max\n";
  auto add = [&](const std::string& name, double share, const TimeStatistics& s) {
    text += name + "," + detail::exact_text(share) + "," + std::to_string(s.count);
    for (const double seconds : {s.mean, s.std, s.min, s.median, s.p95, s.p99, s.max})
      text += "," + detail::exact_text(seconds);
    text += "\n";
  };
  for (const PhaseTimes& phase : phases) add(phase.name, phase.share, phase.seconds);
  add("all", step.count > 0 ? 1 : 0, step);
  return text;
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const PhaseSummary& summary) {
  return out << summary.table();
}

}  // namespace ikebana
