#pragma once
// Defines a rank whose save is stopped before and after each of its system calls, and killed at one
// of them.
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model.hpp"

namespace trials {

/// Marks the process that is traced. Its system calls count from the first of these to the second.
inline void begin_traced() {
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) std::quick_exit(4);
  std::raise(SIGSTOP);
}
inline void end_traced() { std::raise(SIGSTOP); }

/// The process that traces another one.
class Tracer {
 public:
  Tracer(pid_t pid, std::int64_t call, Log& log) : pid_(pid), call_(call), log_(log) {}

  /// Returns the exit code of the traced process, when it has ended.
  int watch() {
    for (;;) {
      int status = 0;
      const pid_t thread = ::waitpid(-1, &status, __WALL);
      if (thread < 0) return 4;
      if (WIFEXITED(status) || WIFSIGNALED(status)) {
        if (thread == pid_) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      } else {
        stopped(thread, status);
      }
    }
  }

 private:
  void stopped(pid_t thread, int status) {
    const int signal = WSTOPSIG(status);
    if (thread == pid_ && signal == SIGSTOP) return marked();
    if (signal == (SIGTRAP | 0x80) && is_counting_) count();
    const bool passes = signal != (SIGTRAP | 0x80) && signal != SIGTRAP && signal != SIGSTOP;
    ::ptrace(is_counting_ ? PTRACE_SYSCALL : PTRACE_CONT, thread, nullptr, passes ? signal : 0L);
  }
  void marked() {
    if (!is_counting_) {
      constexpr long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE;
      ::ptrace(PTRACE_SETOPTIONS, pid_, nullptr, options);
      is_counting_ = true;
      ::ptrace(PTRACE_SYSCALL, pid_, nullptr, 0L);
    } else {
      is_counting_ = false;
      log_.line("stops", std::to_string(stops_));
      ::ptrace(PTRACE_CONT, pid_, nullptr, 0L);
    }
  }
  void count() {
    if (stops_++ != call_) return;
    log_.line("event", "kill at stop " + std::to_string(call_) + " of a save");
    ::kill(pid_, SIGKILL);
  }

  pid_t pid_;
  std::int64_t call_, stops_ = 0;
  Log& log_;
  bool is_counting_ = false;
};

/// Continues in a child process, which is traced from its call of `begin_traced`. This process ends
/// as the child does. It must be called before there are threads.
inline void continue_traced(const Plan& plan, std::int64_t rank) {
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid < 0) std::quick_exit(4);
  if (pid > 0) {
    Log log(plan.folder, rank);
    std::quick_exit(Tracer(pid, plan.call, log).watch());
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) std::quick_exit(4);
}

}  // namespace trials
