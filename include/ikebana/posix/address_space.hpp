#pragma once
// How much address space this process may use, and does.
#include <sys/resource.h>

#include <cstdint>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/posix/machine_memory.hpp>
#include <string>

namespace ikebana::detail {

/// The bytes that are mapped into this process, used or not; 0 where /proc cannot be read.
inline std::int64_t mapped_bytes() {
  return number_in("/proc/self/status", "VmSize:").value_or(0) * 1024;
}

/// A sentence, after a space, on the limit of this process's address space (RLIMIT_AS), and on what
/// is in use; empty without such a limit.
inline std::string address_space_text() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return {};
  return " The address space of this process is limited to " +
         bytes_text(static_cast<std::int64_t>(limit.rlim_cur)) + " by ulimit -v, and " +
         bytes_text(mapped_bytes()) +
         " of it are in use after this was undone, with libraries and the stacks of threads: raise "
         "it, or use less.";
}

}  // namespace ikebana::detail
