#pragma once
// Allows one call at a time of a trainer's methods.
#include <atomic>

namespace ikebana::detail {

/// Throws if the trainer is in use already: by another thread, or by a caller of this call.
class BusyGuard {
 public:
  explicit BusyGuard(std::atomic<bool>& flag);
  ~BusyGuard() { flag_ = false; }
  BusyGuard(const BusyGuard&) = delete;
  BusyGuard& operator=(const BusyGuard&) = delete;

 private:
  std::atomic<bool>& flag_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/busy_guard.ipp>
#endif
