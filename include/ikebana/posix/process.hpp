#pragma once
// This process: recognises objects that a fork copied without their threads, names the process that
// started it, this thread and this machine, and sets variables of the environment.
#include <sys/syscall.h>
#include <unistd.h>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>

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
/// Returns the number by which the system knows this thread, as ps and Chrome traces show it.
inline std::int64_t system_thread_id() { return ::syscall(SYS_gettid); }

/// Returns the name of this machine; `localhost` if it has none.
inline std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == 0) return "localhost";
  return name.data();
}

/// Sets a variable of the environment unless it has a value. Another thread must not read the
/// environment at that time.
inline void set_variable_unless_set(const char* name, const char* value) {
  ::setenv(name, value, /*overwrite=*/0);
}

}  // namespace ikebana::detail
