#pragma once
#include <cstring>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/address_space.hpp>
#include <ikebana/posix/machine_memory.hpp>

namespace ikebana::detail {

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
