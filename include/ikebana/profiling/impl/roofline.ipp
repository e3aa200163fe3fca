#pragma once
#include <algorithm>
#include <ikebana/detail/csv.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/profiling/roofline.hpp>
#include <ikebana/profiling/roofline_text.hpp>
#include <utility>

namespace ikebana::detail {

/// A call whose work takes less than that at the bounds costs more for being called.
inline constexpr double overhead_seconds = 2e-6;

/// The calls and times of one operator in a profile.
struct ProfiledTime {
  double calls = 0;
  double seconds = 0, self_seconds = 0;  // with the operators within it, and without
};

inline std::map<std::string, ProfiledTime> profiled_times(const KeyAverages& averages,
                                                          bool of_device) {
  std::map<std::string, ProfiledTime> times;
  for (const ProfileRow& row : averages) {
    if (row.is_user_annotation || row.device_type != c10::DeviceType::CPU) continue;
    ProfiledTime& one = times[row.key];
    one.calls += static_cast<double>(row.count);
    one.seconds += 1e-6 * (of_device ? row.device_time_total : row.cpu_time_total);
    one.self_seconds += 1e-6 * (of_device ? row.self_device_time_total : row.self_cpu_time_total);
  }
  return times;
}

/// Returns the seconds per step of the calls that were counted. More calls in the profile than were
/// counted are within other operators, whose cost was counted for those. A product that is called
/// twice as often was called again by autocast, with other arguments.
inline double seconds_of(const OperatorTotal& total, const ProfiledTime& time, double steps) {
  const auto calls = static_cast<double>(total.calls);
  if (time.calls <= calls * steps) return ratio(time.seconds, time.calls) * calls;
  if (total.flops > 0) return time.self_seconds / steps;
  return ratio(time.self_seconds, time.calls) * calls;
}

inline void check_device(const KeyAverages& averages, const MachineBounds& bounds) {
  for (const ProfileRow& row : averages)
    if (bounds.device.starts_with("cpu") && row.self_device_time_total > 0)
      throw BadValue(
          "roofline: the profile has times of an accelerator, and the bounds are those of a CPU. "
          "Give `machine_bounds(trainer.device())`.");
}

inline void check_steps(const KeyAverages& averages, std::int64_t steps) {
  if (averages.empty()) return;
  if (steps < 1)
    throw BadValue("roofline: steps is " + std::to_string(steps) +
                   ". Give the steps that were profiled, `ProfileResult::steps`.");
  std::int64_t found = 0;
  for (const ProfileRow& row : averages)
    if (row.key == "ProfilerStep*" && row.device_type == c10::DeviceType::CPU) found += row.count;
  if (found != 0 && found != steps)
    throw BadValue("roofline: steps is " + std::to_string(steps) + ", and the profile has " +
                   std::to_string(found) + " steps. Give `ProfileResult::steps`.");
}

inline std::vector<RooflinePoint> unit_points(const UnitSummary& units, at::ScalarType dtype) {
  std::vector<RooflinePoint> points;
  for (const UnitTimes& unit : units.units)
    if (unit.seconds() > 0)
      points.push_back({.name = unit.name.empty() ? "(model)" : unit.name,
                        .calls = unit.operators,
                        .flops = unit.flops,
                        .bytes = unit.bytes,
                        .seconds = unit.seconds(),
                        .dtype = dtype});
  return points;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE double RooflinePoint::intensity() const {
  return detail::ratio(static_cast<double>(flops), static_cast<double>(bytes));
}

IKEBANA_INLINE double RooflinePoint::flops_per_second() const {
  return detail::ratio(static_cast<double>(flops), seconds);
}

IKEBANA_INLINE double RooflinePoint::bytes_per_second() const {
  return detail::ratio(static_cast<double>(bytes), seconds);
}

IKEBANA_INLINE double RooflinePoint::attainable(const MachineBounds& bounds) const {
  const double products = bounds.flops_per_second(dtype);
  if (bytes == 0 || bounds.bytes_per_second <= 0) return products;
  return std::min(products, intensity() * bounds.bytes_per_second);
}

IKEBANA_INLINE double RooflinePoint::least_seconds(const MachineBounds& bounds) const {
  return std::max(detail::ratio(static_cast<double>(flops), bounds.flops_per_second(dtype)),
                  detail::ratio(static_cast<double>(bytes), bounds.bytes_per_second));
}

IKEBANA_INLINE double RooflinePoint::share(const MachineBounds& bounds) const {
  return detail::ratio(least_seconds(bounds), seconds);
}

IKEBANA_INLINE bool RooflinePoint::is_memory_bound(const MachineBounds& bounds) const {
  return detail::ratio(static_cast<double>(bytes), bounds.bytes_per_second) >
         detail::ratio(static_cast<double>(flops), bounds.flops_per_second(dtype));
}

IKEBANA_INLINE RooflineLimit RooflinePoint::limit(const MachineBounds& bounds) const {
  const double part = share(bounds);
  if (part == 0) return RooflineLimit::Unknown;
  const auto most = detail::overhead_seconds * static_cast<double>(calls);
  if (part < 0.5 && least_seconds(bounds) < most) return RooflineLimit::Overhead;
  if (!is_memory_bound(bounds)) return RooflineLimit::Products;
  return part > 1 ? RooflineLimit::Caches : RooflineLimit::Copies;
}

IKEBANA_INLINE Roofline roofline(const MachineBounds& bounds, const UnitSummary& units,
                                 const OperatorTotals& totals, const KeyAverages& averages,
                                 std::int64_t steps) {
  detail::check_device(averages, bounds), detail::check_steps(averages, steps);
  Roofline found{.bounds = bounds, .units = detail::unit_points(units, totals.all().dtype)};
  const auto times = detail::profiled_times(averages, !bounds.device.starts_with("cpu"));
  for (const auto& [name, total] : totals.by_name) {
    const auto time = times.find(name);
    if (time == times.end() || (total.flops == 0 && total.bytes == 0)) continue;
    const double seconds = detail::seconds_of(total, time->second, static_cast<double>(steps));
    if (seconds > 0)
      found.operators.push_back(
          {name, total.calls, total.flops, total.bytes, seconds, total.dtype});
  }
  return found;
}

IKEBANA_INLINE std::string Roofline::table(std::size_t rows) const {
  std::string text;
  for (const auto& [title, points] : {std::pair{"unit", &units}, std::pair{"operator", &operators}})
    if (!points->empty()) text += detail::roofline_rows(title, *points, bounds, rows) + "\n";
  return text + detail::bounds_text(bounds);
}

IKEBANA_INLINE std::string Roofline::csv() const {
  std::string text =
      "kind,name,calls,flops,bytes,seconds,dtype,intensity,flops_per_second,bytes_per_second,"
      "attainable_flops_per_second,share,limit\n";
  for (const auto& [kind, points] : {std::pair{"unit", &units}, std::pair{"operator", &operators}})
    for (const RooflinePoint& p : *points) {
      text += std::string(kind) + "," + detail::csv_field(p.name);
      for (const std::int64_t number : {p.calls, p.flops, p.bytes})
        text += "," + std::to_string(number);
      text += "," + detail::exact_text(p.seconds) + "," + detail::dtype_text(p.dtype);
      for (const double number : {p.intensity(), p.flops_per_second(), p.bytes_per_second(),
                                  p.attainable(bounds), p.share(bounds)})
        text += "," + detail::exact_text(number);
      text += std::string(",") + detail::limit_name(p.limit(bounds)) + "\n";
    }
  return text;
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const Roofline& roofline) {
  return out << roofline.table();
}

}  // namespace ikebana
