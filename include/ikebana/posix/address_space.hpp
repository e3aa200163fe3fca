#pragma once
// How much address space this process may use, and does.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <ikebana/detail/bytes.hpp>
#include <string>

namespace ikebana::detail {

/// The bytes that are mapped into this process, used or not; 0 where /proc cannot be read.
/// Allocates nothing.
inline std::int64_t mapped_bytes() noexcept {
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[32] = {};  // the first number of it counts pages
  const ssize_t bytes = ::read(file, text, sizeof text - 1);
  ::close(file);
  return bytes > 0 ? std::strtoll(text, nullptr, 10) * ::sysconf(_SC_PAGESIZE) : 0;
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
