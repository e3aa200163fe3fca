#pragma once
// Allocates large pages, and reads the memory of the machine and of this process, and the limit of
// the address space.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace ikebana::detail {

inline constexpr std::size_t large_page = 2 << 20;  ///< bytes

/// Allocates uninitialised memory of at least `size - large_page` and at most `size` bytes, which
/// is a multiple of `large_page`, in large pages if the system has them. Throws std::bad_alloc.
std::shared_ptr<void> allocate_large_pages(std::size_t size);

}  // namespace ikebana::detail

namespace ikebana {

/// The memory of the machine and of this process, in bytes. A limit of the control group of Linux
/// that this process may not leave, such as a container's, counts as the machine's memory.
struct MachineMemory {
  std::int64_t total = 0;     ///< the bytes of the machine, or of the control group if it has less
  std::int64_t free = 0;      ///< the bytes that any process can allocate without swapping
  std::int64_t resident = 0;  ///< the bytes of this process, in its own pages and in pages of its
                              ///< files
};

namespace detail {

/// Returns the first number after `name` in a file of lines `name 123`, or the first one of the
/// file if `name` is empty. Returns no value if there is no such file, line or number, e.g. if it
/// says `max`.
std::optional<std::int64_t> number_in(const std::string& path, const std::string& name);

/// The files in which a version of control groups gives the limit and the use of a group.
struct GroupFiles {
  const char *limit, *used, *reclaimable;
};
inline constexpr GroupFiles second_version{"memory.max", "memory.current", "inactive_file "};
inline constexpr GroupFiles first_version{"memory.limit_in_bytes", "memory.usage_in_bytes",
                                          "total_inactive_file "};

/// Reads the memory of the machine and of this process. Returns no value if /proc cannot be read,
/// as on other systems than Linux. Costs some tens of microseconds. `root` stands before all paths,
/// for tests.
std::optional<MachineMemory> machine_memory(const std::string& root = "");

/// Returns freed memory of this process's heap to the system, if the heap is glibc's.
void trim_heap() noexcept;

/// Returns the bytes that are mapped into this process, used or not, or 0 if /proc cannot be read.
std::int64_t mapped_bytes();

/// Returns a sentence, after a space, on the limit of this process's address space (RLIMIT_AS), and
/// on the part in use. Returns an empty text without such a limit.
std::string address_space_text();

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/machine_memory.ipp>
#endif
