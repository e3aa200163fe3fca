#pragma once
// Starts processes that run this program again.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cstring>
#include <ikebana/posix/signal_pipe.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail {

/// The end of a process: by an exit code, or by a signal.
struct ChildEnd {
  int code = 0, signal = 0;
  bool failed() const { return code != 0 || signal != 0; }
  /// Returns the exit code that a shell would give.
  int exit_code() const { return signal != 0 ? 128 + signal : code; }
};

std::string signal_name(int signal);

/// Returns the number of processors that this process may use.
std::int64_t usable_processors();

/// Opens the standard streams that are closed, so that no other file becomes one.
void open_standard_streams();

/// Sets the name of this process in the lists of ps and top.
void set_process_name(const char* program);

/// Writes all of the text at once. Does nothing if stderr is closed.
void write_to_stderr(std::string_view text);

/// Waits until one of the descriptors can be read or a time has passed; without a limit if it is
/// -1.
void wait_readable(const std::vector<int>& descriptors, int milliseconds);

/// Stops this process until SIGCONT.
inline void stop_this_process() { ::raise(SIGSTOP); }

/// The arguments, variables and descriptors with which a child is started.
struct ChildStart {
  std::vector<std::string> arguments, environment;  // the environment as NAME=value
  int inherited = -1;                               // a descriptor that the child keeps open
  bool reads_stdin = false;
};

/// RAII: a process that runs this program with other variables, in a process group of its own, so
/// that a terminal's signals do not reach it. It is killed with the process that started it. Its
/// stderr is read here. Throws std::system_error.
class Child {
 public:
  Child(const ChildStart& start, const SignalPipe& pipe);
  Child(Child&& other) noexcept
      : id_(std::exchange(other.id_, 0)), stderr_(std::exchange(other.stderr_, -1)) {}
  Child& operator=(Child&&) = delete;
  ~Child();

  pid_t id() const { return id_; }
  bool runs() const { return id_ > 0; }
  void send(int signal) const;
  /// Returns once how it ended, and no value before and after. Does not wait.
  std::optional<ChildEnd> end();

  /// Returns the descriptor of its stderr, or -1 after it was read to its end.
  int stderr_descriptor() const { return stderr_; }
  /// Returns what it wrote to stderr since the last call. Does not wait.
  std::string read_stderr();
  void close_stderr();

 private:
  static std::vector<char*> pointers(const std::vector<std::string>& texts);
  /// Runs in the child between fork and exec, so it does not allocate or lock.
  [[noreturn]] static void run(const ChildStart& start, const SignalPipe& pipe,
                               const std::vector<char*>& arguments,
                               const std::vector<char*>& environment, int error, pid_t parent);

  pid_t id_ = 0;
  int stderr_ = -1;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/child.ipp>
#endif
