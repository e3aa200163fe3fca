#pragma once
#include <sys/resource.h>
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/control_groups.hpp>
#include <ikebana/posix/machine_memory.hpp>
#include <new>
#include <sstream>
#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace ikebana::detail {

IKEBANA_INLINE std::shared_ptr<void> allocate_large_pages(std::size_t size) {
  const std::size_t whole_pages = size / large_page * large_page;
  std::shared_ptr<void> block(std::aligned_alloc(large_page, whole_pages), std::free);
  if (!block) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
  (void)::madvise(block.get(), whole_pages, MADV_HUGEPAGE);
#endif
  return block;
}

IKEBANA_INLINE std::optional<std::int64_t> number_in(const std::string& path,
                                                     const std::string& name) {
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

/// Bounds the memory by the limits of the control group in a folder. Files that the system can drop
/// count as free.
inline void bound_by_group(MachineMemory& memory, const GroupFiles& files,
                           const std::string& folder) {
  const auto limit = number_in(folder + files.limit, ""), used = number_in(folder + files.used, "");
  if (!limit || !used || *limit >= memory.total) return;
  const std::int64_t files_of_it = number_in(folder + "memory.stat", files.reclaimable).value_or(0);
  memory.free = std::clamp<std::int64_t>(*limit - *used + files_of_it, 0, memory.free);
  memory.total = *limit;
}

IKEBANA_INLINE std::optional<MachineMemory> machine_memory(const std::string& root) {
  const std::string info = root + "/proc/meminfo";
  const auto total = number_in(info, "MemTotal:"), free = number_in(info, "MemAvailable:");
  if (!total || !free) return {};
  MachineMemory memory{*total * 1024, *free * 1024, 0};
  memory.resident = number_in(root + "/proc/self/status", "VmRSS:").value_or(0) * 1024;
  each_control_group(root, "memory", [&](const std::string& folder, bool is_second_version) {
    bound_by_group(memory, is_second_version ? second_version : first_version, folder);
  });
  return memory;
}

IKEBANA_INLINE void trim_heap() noexcept {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

IKEBANA_INLINE std::int64_t mapped_bytes() {
  return number_in("/proc/self/status", "VmSize:").value_or(0) * 1024;
}

IKEBANA_INLINE std::string address_space_text() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return " The address space of this process is limited to " +
         bytes_text(static_cast<std::int64_t>(limit.rlim_cur)) + " by ulimit -v, and " +
         bytes_text(mapped_bytes()) +
         " of it are in use after this was undone, with libraries and the stacks of threads: raise "
         "it, or use less.";
}

}  // namespace ikebana::detail
