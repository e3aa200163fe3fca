#pragma once
// The memory of the machine, or of the control group of Linux that this process may not leave, as a
// container's; and what of it this process has.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace ikebana {

/// Bytes.
struct MachineMemory {
  std::int64_t total = 0;     ///< of the machine, or of the control group where that is less
  std::int64_t free = 0;      ///< what can be allocated without swapping, by any process
  std::int64_t resident = 0;  ///< of this process, in pages of its own and of its files
};

namespace detail {

/// The first number after `name` in a file of lines `name 123`, or the first one of the file where
/// `name` is empty; none where there is no such file, line or number, as where it says `max`.
inline std::optional<std::int64_t> number_in(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    std::int64_t number = 0;
    if (rest >> number) return number;
    return {};
  }
  return {};
}

/// The files in which a version of control groups says what a group may use, and does.
struct GroupFiles {
  const char *folder, *limit, *used, *reclaimable;
};
inline constexpr GroupFiles second_version{"", "memory.max", "memory.current", "inactive_file "};
inline constexpr GroupFiles first_version{"/memory", "memory.limit_in_bytes",
                                          "memory.usage_in_bytes", "total_inactive_file "};

/// What the group at `path` and each one around it leave. Files that the system can drop count as
/// free. In a container, the group's own folder may be the root.
inline void bound_by_group(MachineMemory& memory, const std::string& root, const GroupFiles& files,
                           std::string path) {
  for (;;) {
    const std::string folder = root + "/sys/fs/cgroup" + files.folder + path + "/";
    const auto limit = number_in(folder + files.limit, ""),
               used = number_in(folder + files.used, "");
    if (limit && used && *limit < memory.total) {
      const std::int64_t files_of_it =
          number_in(folder + "memory.stat", files.reclaimable).value_or(0);
      memory.free = std::clamp<std::int64_t>(*limit - *used + files_of_it, 0, memory.free);
      memory.total = *limit;
    }
    if (path.empty()) return;
    path.resize(path.find_last_of('/'));
  }
}

/// Of Linux: elsewhere, and where /proc cannot be read, there is none. Costs some tens of
/// microseconds. `root` stands before all paths, for tests.
inline std::optional<MachineMemory> machine_memory(const std::string& root = "") {
  const std::string info = root + "/proc/meminfo";
  const auto total = number_in(info, "MemTotal:"), free = number_in(info, "MemAvailable:");
  if (!total || !free) return {};
  MachineMemory memory{*total * 1024, *free * 1024, 0};
  memory.resident = number_in(root + "/proc/self/status", "VmRSS:").value_or(0) * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == line.npos) continue;
    std::string path = line.substr(second + 1);
    if (path == "/") path.clear();
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controllers == ",,") bound_by_group(memory, root, second_version, path);
    else if (controllers.find(",memory,") != controllers.npos)
      bound_by_group(memory, root, first_version, path);
  }
  return memory;
}

/// Returns freed memory of this process's heap to the system, where it is glibc's.
inline void trim_heap() noexcept {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

}  // namespace detail
}  // namespace ikebana
