#pragma once
// Makes a copy of this process, to try something in it that must change nothing here.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string>

namespace ikebana::detail {

/// RAII: a forked child, in which only this thread runs. It is killed with the thread that forked
/// it, and takes no signals. All files and connections are taken from it: what it writes to them is
/// dropped, and it keeps none of them open.
class ProcessCopy {
 public:
  /// Calls `f`, which returns a string, in the child. Returns false if no child can be made.
  template <class F>
  bool start(const F& f) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    sigset_t all, mask;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &mask);
    id_ = ::fork();
    if (id_ == 0) run(f, ends[1]);
    ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    ::close(ends[1]);
    pipe_ = ends[0];
    return id_ > 0;
  }
  ~ProcessCopy();
  ProcessCopy() = default;
  ProcessCopy(const ProcessCopy&) = delete;
  ProcessCopy& operator=(const ProcessCopy&) = delete;

  /// Returns the string that `f` returned, or no value if it threw, was killed, or takes longer
  /// than `limit`.
  std::optional<std::string> result(std::chrono::milliseconds limit);

 private:
  static constexpr char done = '.';  // the last character of a result that is complete

  template <class F>
  [[noreturn]] static void run(const F& f, int pipe) noexcept {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::prctl(PR_SET_DUMPABLE, 0);  // no core file
    if (!take_files(pipe)) ::_exit(0);
    try {
      std::string text = f();
      text += done;
      for (std::size_t from = 0; from < text.size();) {
        const ssize_t bytes = ::write(pipe, text.data() + from, text.size() - from);
        if (bytes > 0) from += static_cast<std::size_t>(bytes);
        else if (errno != EINTR) break;
      }
    } catch (...) {
    }
    ::_exit(0);  // does not flush or destroy what belongs to the original process
  }
  /// Takes away the files of the child. Their numbers stay in use, so that no file that is opened
  /// later gets what was meant for them. Returns false if they cannot be listed, e.g. without
  /// /proc.
  static bool take_files(int pipe) noexcept;
  void end() const;

  pid_t id_ = -1;
  int pipe_ = -1;
  bool ends_ = false;  // it has ended by itself
};

/// Calls `f` in a copy of this process, and returns the string that it returns there: `f` changes
/// nothing here, even if it fails. Returns no value if `f` throws or crashes, if no copy can be
/// made, or after half a minute: another thread may have held a lock that `f` needs. Costs some
/// milliseconds per GiB in use.
template <class F>
std::optional<std::string> in_process_copy(const F& f) {
  ProcessCopy copy;
  if (!copy.start(f)) return {};
  return copy.result(std::chrono::seconds(30));
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/process_copy.ipp>
#endif
