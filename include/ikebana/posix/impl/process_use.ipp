#pragma once
#include <algorithm>
#include <ctime>
#include <fstream>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/child.hpp>
#include <ikebana/posix/control_groups.hpp>
#include <ikebana/posix/machine_memory.hpp>
#include <ikebana/posix/process_use.hpp>

namespace ikebana::detail {

/// Returns how many processors a group may use at once, rounded up; no value without a limit. Both
/// numbers are microseconds: of all its processors together, and of the period in which they count.
inline std::optional<std::int64_t> processors_of(std::optional<std::int64_t> quota,
                                                 std::optional<std::int64_t> period) {
  if (!quota || !period || *quota <= 0 || *period <= 0) return {};
  return (*quota + *period - 1) / *period;
}

IKEBANA_INLINE std::int64_t usable_cores(const std::string& root) {
  std::int64_t cores = usable_processors();
  each_control_group(root, "cpu", [&](const std::string& folder, bool is_second_version) {
    std::optional<std::int64_t> limit;
    if (is_second_version) {  // one line, such as `150000 100000`
      const auto quota = number_in(folder + "cpu.max", "");
      if (quota)
        limit = processors_of(quota, number_in(folder + "cpu.max", std::to_string(*quota) + " "));
    } else {
      limit = processors_of(number_in(folder + "cpu.cfs_quota_us", ""),
                            number_in(folder + "cpu.cfs_period_us", ""));
    }
    cores = std::min(cores, limit.value_or(cores));
  });
  return cores;
}

IKEBANA_INLINE double seconds_without_processor() {
  std::ifstream file("/proc/thread-self/schedstat");  // nanoseconds on a processor, and without one
  double on_processor = 0, without = 0;
  return file >> on_processor >> without ? without / 1e9 : 0;
}

IKEBANA_INLINE double seconds_on_processor() {
  timespec time{};
  if (::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

}  // namespace ikebana::detail
