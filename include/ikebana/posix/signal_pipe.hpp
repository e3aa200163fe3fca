#pragma once
// Makes signals records that are read from a pipe.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>
#include <array>
#include <utility>
#include <vector>

namespace ikebana::detail {

struct ReceivedSignal {
  int signal;
  pid_t sender;  // for SIGCHLD, the child that ended
};

/// RAII, one at a time: while it exists, SIGCHLD and the signals by which programs are ended or
/// notified only write a record. Signals that were ignored stay ignored, as under nohup, and
/// SIGPIPE is ignored. The former handlers and mask are restored at the end.
class SignalPipe {
 public:
  SignalPipe();
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  /// Returns the descriptor, which is readable when a signal has arrived.
  int descriptor() const { return ends_[0]; }
  std::vector<ReceivedSignal> read() const;
  /// Restores handlers and mask in a forked child. It is safe between fork and exec.
  void restore() const;

 private:
  static constexpr std::array passed_signals{SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,
                                             SIGUSR1, SIGUSR2, SIGTSTP, SIGCHLD};

  static int& write_end();
  static void record(int signal, siginfo_t* info, void*);
  void replace(int signal, const struct sigaction& action);
  void restore_handlers() const;

  int ends_[2] = {-1, -1};
  std::array<std::pair<int, struct sigaction>, passed_signals.size() + 1> former_{};
  std::size_t count_ = 0;
  sigset_t former_mask_{};
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/signal_pipe.ipp>
#endif
