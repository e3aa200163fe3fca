#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/observe/profile_result.hpp>
#include <map>
#include <tuple>

namespace ikebana {

namespace detail {

IKEBANA_INLINE std::string shapes_text(const std::vector<std::vector<std::int64_t>>& shapes) {
  std::string text = "[";
  for (const auto& shape : shapes) {
    text += text.size() > 1 ? ", [" : "[";
    for (std::size_t i = 0; i < shape.size(); ++i)
      text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
    text += "]";
  }
  return text + "]";
}

inline void add_to(ProfileRow& row, const ProfileEvent& event) {
  ++row.count;
  row.cpu_time_total += event.cpu_time_total;
  row.self_cpu_time_total += event.self_cpu_time_total;
  row.device_time_total += event.device_time_total;
  row.self_device_time_total += event.self_device_time_total;
  row.cpu_memory_usage += event.cpu_memory_usage;
  row.self_cpu_memory_usage += event.self_cpu_memory_usage;
  row.device_memory_usage += event.device_memory_usage;
  row.self_device_memory_usage += event.self_device_memory_usage;
  row.flops += event.flops;
}

/// Returns the name under which an event is added up: one for all steps.
inline std::string key_of(const ProfileEvent& event) {
  return event.name.starts_with("ProfilerStep#") ? "ProfilerStep*" : event.name;
}

}  // namespace detail

IKEBANA_INLINE KeyAverages ProfileResult::key_averages(const KeyAveragesOptions& options) const {
  if (options.by_shape && !record_shapes)
    throw BadValue(
        "ProfileResult::key_averages: by_shape is true, and no shapes were recorded. Set "
        "record_shapes of Observe<Profile> or Profiler to true.");
  KeyAverages rows;
  rows.profile_memory = profile_memory, rows.with_flops = with_flops;
  std::map<std::tuple<std::string, c10::DeviceType, bool, std::string, std::string>, std::size_t>
      known;
  for (const ProfileEvent& event : events) {
    ProfileRow row{.key = detail::key_of(event)};
    if (options.by_unit) row.unit = event.unit;
    if (options.by_shape) row.input_shapes = detail::shapes_text(event.input_shapes);
    row.is_user_annotation = event.is_user_annotation, row.device_type = event.device_type;
    const auto [place, is_new] = known.try_emplace(
        {row.key, row.device_type, row.is_user_annotation, row.unit, row.input_shapes},
        rows.size());
    if (is_new) rows.push_back(std::move(row));
    detail::add_to(rows[place->second], event);
  }
  return rows;
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const ProfileResult& result) {
  out << result.steps << " steps from step " << result.first_step;
  if (result.is_truncated) out << "; the window ended early";
  return out << ", " << result.events.size() << " events\n"
             << result.key_averages().table(
                    {.sort_by = &ProfileRow::self_cpu_time_total, .rows = 20});
}

}  // namespace ikebana
