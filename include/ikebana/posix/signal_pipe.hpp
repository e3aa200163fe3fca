#pragma once
// Signals as records that are read from a pipe.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

namespace ikebana::detail {

struct ReceivedSignal {
  int signal;
  pid_t sender;  // of SIGCHLD the child that ended
};

/// RAII, one at a time: while it exists, SIGCHLD and the signals by which programs are ended or
/// notified only write a record. Signals that were ignored stay ignored, as under nohup, and
/// SIGPIPE is ignored. The former handlers and mask are restored at the end.
class SignalPipe {
 public:
  SignalPipe() {
    if (::pipe2(ends_, O_CLOEXEC | O_NONBLOCK) != 0)
      throw std::system_error(errno, std::generic_category(), "a pipe");
    write_end() = ends_[1];
    struct sigaction action{};
    action.sa_sigaction = record;
    action.sa_flags = static_cast<int>(SA_SIGINFO | SA_RESTART);
    sigfillset(&action.sa_mask);
    for (const int signal : passed_signals) replace(signal, action);
    action = {};
    action.sa_handler = SIG_IGN;
    replace(SIGPIPE, action);
    sigset_t all;
    sigemptyset(&all);
    for (const int signal : passed_signals) sigaddset(&all, signal);
    ::pthread_sigmask(SIG_UNBLOCK, &all, &former_mask_);
  }
  ~SignalPipe() {
    ::pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
    restore_handlers();
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  /// Readable when a signal has arrived.
  int descriptor() const { return ends_[0]; }
  std::vector<ReceivedSignal> read() const {
    std::vector<ReceivedSignal> all;
    ReceivedSignal one{};
    while (::read(ends_[0], &one, sizeof one) == sizeof one) all.push_back(one);
    return all;
  }
  /// In a forked child: handlers and mask as they were. Safe between fork and exec.
  void restore() const {
    restore_handlers();
    ::pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
  }

 private:
  static constexpr std::array passed_signals{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                             SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD};

  static int& write_end() {
    static int descriptor = -1;
    return descriptor;
  }
  static void record(int signal, siginfo_t* info, void*) {
    const int code = errno;
    const ReceivedSignal one{signal, info->si_pid};
    [[maybe_unused]] const auto written = ::write(write_end(), &one, sizeof one);
    errno = code;
  }
  void replace(int signal, const struct sigaction& action) {
    struct sigaction former{};
    ::sigaction(signal, nullptr, &former);
    if (former.sa_handler == SIG_IGN && signal != SIGCHLD) return;
    ::sigaction(signal, &action, nullptr);
    former_[count_++] = {signal, former};
  }
  void restore_handlers() const {
    for (std::size_t i = 0; i < count_; ++i)
      ::sigaction(former_[i].first, &former_[i].second, nullptr);
  }

  int ends_[2] = {-1, -1};
  std::array<std::pair<int, struct sigaction>, passed_signals.size() + 1> former_{};
  std::size_t count_ = 0;
  sigset_t former_mask_{};
};

}  // namespace ikebana::detail
