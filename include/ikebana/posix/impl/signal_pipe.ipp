#pragma once
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/signal_pipe.hpp>
#include <system_error>

namespace ikebana::detail {

IKEBANA_INLINE SignalPipe::SignalPipe() {
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

IKEBANA_INLINE SignalPipe::~SignalPipe() {
  ::pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
  restore_handlers();
  ::close(ends_[0]);
  ::close(ends_[1]);
}

IKEBANA_INLINE std::vector<ReceivedSignal> SignalPipe::read() const {
  std::vector<ReceivedSignal> all;
  ReceivedSignal one{};
  while (::read(ends_[0], &one, sizeof one) == sizeof one) all.push_back(one);
  return all;
}

IKEBANA_INLINE void SignalPipe::restore() const {
  restore_handlers();
  ::pthread_sigmask(SIG_SETMASK, &former_mask_, nullptr);
}

IKEBANA_INLINE int& SignalPipe::write_end() {
  static int descriptor = -1;
  return descriptor;
}

IKEBANA_INLINE void SignalPipe::record(int signal, siginfo_t* info, void*) {
  const int code = errno;
  const ReceivedSignal one{signal, info->si_pid};
  [[maybe_unused]] const auto written = ::write(write_end(), &one, sizeof one);
  errno = code;
}

IKEBANA_INLINE void SignalPipe::replace(int signal, const struct sigaction& action) {
  struct sigaction former{};
  ::sigaction(signal, nullptr, &former);
  if (former.sa_handler == SIG_IGN && signal != SIGCHLD) return;
  ::sigaction(signal, &action, nullptr);
  former_[count_++] = {signal, former};
}

IKEBANA_INLINE void SignalPipe::restore_handlers() const {
  for (std::size_t i = 0; i < count_; ++i)
    ::sigaction(former_[i].first, &former_[i].second, nullptr);
}

}  // namespace ikebana::detail
