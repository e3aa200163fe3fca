#pragma once
#include <csignal>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/sigpipe.hpp>

namespace ikebana::detail {

IKEBANA_INLINE SigpipeBlock::SigpipeBlock() noexcept {
  sigemptyset(&sigpipe_);
  sigaddset(&sigpipe_, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &sigpipe_, &former_);
}

IKEBANA_INLINE SigpipeBlock::~SigpipeBlock() {
  if (sigismember(&former_, SIGPIPE) == 1) return;
  sigset_t pending;
  sigpending(&pending);
  int signal = 0;
  if (sigismember(&pending, SIGPIPE) == 1) sigwait(&sigpipe_, &signal);
  pthread_sigmask(SIG_SETMASK, &former_, nullptr);
}

}  // namespace ikebana::detail
