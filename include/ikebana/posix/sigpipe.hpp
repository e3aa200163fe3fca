#pragma once
// Keeps SIGPIPE, which ends a process, away from calls that may write to a closed connection.
#include <signal.h>

namespace ikebana::detail {

/// While this exists, a write of this thread to a connection that its other end has closed fails
/// with EPIPE and raises no signal that is delivered. A thread that is made meanwhile keeps SIGPIPE
/// blocked for its lifetime. Costs three system calls; handlers and other threads are not changed.
class SigpipeBlock {
 public:
  SigpipeBlock() noexcept;
  ~SigpipeBlock();
  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;

 private:
  sigset_t sigpipe_, former_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/sigpipe.ipp>
#endif
