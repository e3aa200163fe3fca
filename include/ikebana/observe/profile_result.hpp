#pragma once
// The result of profiling some steps: events, their averages by name, and tables.
#include <cstdint>
#include <functional>
#include <ikebana/detail/torch.hpp>
#include <ostream>
#include <string>
#include <vector>

namespace ikebana {

/// One event of a profile: an operator, a node of backward, a range, a kernel of a device, or a
/// change of memory outside of operators. Fields are named as `torch.profiler`'s FunctionEvent
/// names them. Units: times are in microseconds, memory is in bytes.
struct ProfileEvent {
  std::string name = {};          ///< `aten::addmm`, `AddmmBackward0`, `unit: blocks.0`, `[memory]`
  std::int64_t start_ns = 0;      ///< its begin, in nanoseconds since the epoch
  std::int64_t end_ns = 0;        ///< its end, in nanoseconds since the epoch
  std::uint64_t thread = 0;       ///< the number that LibTorch gave to its thread
  std::uint64_t fwd_thread = 0;   ///< for a node of backward: the thread of its forward, or 0
  std::int64_t sequence_nr = -1;  ///< the number of autograd's node; -1: no node
  std::uint64_t correlation_id = 0;  ///< what a device's event has as `linked_correlation_id`
  std::uint64_t linked_correlation_id = 0;  ///< the event that launched it; 0: no event
  std::vector<std::vector<std::int64_t>> input_shapes = {};  ///< under `record_shapes`
  std::uint64_t flops = 0;                                   ///< under `with_flops`; 0: not known
  std::string unit =
      {};  ///< the unit whose forward it belongs to, or whose backward; empty: no unit's
  c10::DeviceType device_type = c10::DeviceType::CPU;  ///< the device that it ran on
  int device_index = 0;                    ///< the index of that device; on a CPU the process's id
  bool is_async = false;                   ///< it ended on another thread than it began on
  bool is_user_annotation = false;         ///< it is a range
  double cpu_time_total = 0;               ///< its duration on a CPU; 0 for an event of a device
  double self_cpu_time_total = 0;          ///< the same without events within it
  double device_time_total = 0;            ///< the time of the kernels that it launched, or its own
  double self_device_time_total = 0;       ///< the same without events within it
  std::int64_t cpu_memory_usage = 0;       ///< allocated minus freed, under `profile_memory`
  std::int64_t self_cpu_memory_usage = 0;  ///< the same without events within it
  std::int64_t device_memory_usage = 0;    ///< the same on the accelerator
  std::int64_t self_device_memory_usage = 0;  ///< the same without events within it
};

/// The events of one name, added up, as `torch.profiler`'s FunctionEventAvg has them. Units: times
/// are in microseconds, memory is in bytes.
struct ProfileRow {
  std::string key = {};               ///< the name of the events; `ProfilerStep*` for all steps
  std::string unit = {};              ///< their unit, under `by_unit`
  std::string input_shapes = {};      ///< their shapes, under `by_shape`: `[[8, 16], []]`
  std::int64_t count = 0;             ///< the number of events
  double cpu_time_total = 0;          ///< time on a CPU
  double self_cpu_time_total = 0;     ///< time on a CPU, without events within them
  double device_time_total = 0;       ///< time of kernels
  double self_device_time_total = 0;  ///< time of kernels, without events within them
  std::int64_t cpu_memory_usage = 0;  ///< allocated minus freed
  std::int64_t self_cpu_memory_usage = 0;     ///< allocated minus freed, without events within them
  std::int64_t device_memory_usage = 0;       ///< allocated minus freed on the accelerator
  std::int64_t self_device_memory_usage = 0;  ///< the same, without events within them
  std::uint64_t flops = 0;                    ///< floating-point operations that are known
  bool is_user_annotation = false;            ///< they are ranges
  c10::DeviceType device_type = c10::DeviceType::CPU;  ///< the device that they ran on

  /// Returns the mean duration on a CPU, in microseconds.
  double cpu_time() const { return count == 0 ? 0 : cpu_time_total / static_cast<double>(count); }
};

/// The options of `KeyAverages::table`.
struct ProfileTableOptions {
  /// Returns the number by which rows are sorted, the largest first. A field of a row is one:
  /// `&ProfileRow::self_cpu_time_total`. If it is empty, rows stand in the order of their first
  /// event.
  std::function<double(const ProfileRow&)> sort_by = {};
  std::int64_t rows = 100;             ///< the rows that are printed at most
  std::int64_t max_name_width = 55;    ///< the columns that a name takes at most
  std::int64_t max_shapes_width = 80;  ///< the columns that shapes take at most
};

/// The rows of a profile, in the order of their first event.
struct KeyAverages : std::vector<ProfileRow> {
  bool profile_memory = false;  ///< whether memory was recorded, so that tables have its columns
  bool with_flops = false;      ///< whether floating-point operations were counted

  /// Returns a table as `torch.profiler`'s `table()` prints it. Throws BadValue for negative
  /// `rows`, and for widths below 8.
  std::string table(const ProfileTableOptions& options = {}) const;
  /// Returns the rows as comma-separated values with the names of the fields as the first line.
  /// Times are in microseconds with three decimals, memory is in bytes.
  std::string csv() const;
};

/// The options of `ProfileResult::key_averages`.
struct KeyAveragesOptions {
  bool by_shape = false;  ///< has a row for each name and shapes (`group_by_input_shape`)
  bool by_unit = false;   ///< has a row for each name and unit
};

/// The events of the steps of one active window.
struct ProfileResult {
  std::int64_t first_step = 0;  ///< the number of the window's first step, from 0
  std::int64_t steps = 0;       ///< the number of steps that it has
  bool is_truncated = false;    ///< it ended before its last step: at `max_events`, after an
                                ///< exception, or by `stop`
  std::int64_t start_ns = 0;    ///< the begin of the recording, in nanoseconds since the epoch
  bool record_shapes = false;   ///< whether events have shapes
  bool profile_memory = false;  ///< whether events have memory
  bool with_flops = false;      ///< whether events have floating-point operations
  std::vector<ProfileEvent> events = {};  ///< the events, in the order of their begin
  std::vector<std::string> files = {};    ///< the paths of the files that were written

  /// Adds the events up by name, as Python's `key_averages()` does. Throws BadValue for `by_shape`
  /// if no shapes were recorded.
  KeyAverages key_averages(const KeyAveragesOptions& options = {}) const;
};

namespace detail {
/// Writes shapes as Python does: `[[8, 16], []]`.
std::string shapes_text(const std::vector<std::vector<std::int64_t>>& shapes);
}  // namespace detail

/// Prints a line on the window, and the twenty rows with the most time of their own.
std::ostream& operator<<(std::ostream& out, const ProfileResult& result);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/profile_result.ipp>
#include <ikebana/observe/impl/profile_table.ipp>
#endif
