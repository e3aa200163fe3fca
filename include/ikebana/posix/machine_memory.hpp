#pragma once
// The memory of the machine, or of the control group of Linux that this process may not leave, as a
// container's; and what of it this process has.
#include <cstdint>
#include <optional>
#include <string>

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
std::optional<std::int64_t> number_in(const std::string& path, const std::string& name);

/// The files in which a version of control groups says what a group may use, and does.
struct GroupFiles {
  const char *folder, *limit, *used, *reclaimable;
};
inline constexpr GroupFiles second_version{"", "memory.max", "memory.current", "inactive_file "};
inline constexpr GroupFiles first_version{"/memory", "memory.limit_in_bytes",
                                          "memory.usage_in_bytes", "total_inactive_file "};

/// Of Linux: elsewhere, and where /proc cannot be read, there is none. Costs some tens of
/// microseconds. `root` stands before all paths, for tests.
std::optional<MachineMemory> machine_memory(const std::string& root = "");

/// Returns freed memory of this process's heap to the system, where it is glibc's.
void trim_heap() noexcept;

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/machine_memory.ipp>
#endif
