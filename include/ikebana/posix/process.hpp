#pragma once
// This process: recognises objects that a fork copied without their threads, and names the process
// that started it.
#include <unistd.h>

#include <cstdint>

namespace ikebana::detail {

/// Remembers the process that made it. Each question costs a system call.
class OwnProcess {
 public:
  /// Returns true in a forked child. Threads of the process that made this do not exist there.
  bool is_inherited() const { return ::getpid() != id_; }

 private:
  pid_t id_ = ::getpid();
};

inline std::int64_t process_id() { return ::getpid(); }
/// Returns the id of the process that started this one.
inline std::int64_t parent_process() { return ::getppid(); }

}  // namespace ikebana::detail
