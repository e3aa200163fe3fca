#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/kept_steps.hpp>

namespace ikebana::detail {

/// RAII: backward runs in the thread that calls it, for an accelerator, too.
class BackwardInThisThread {
 public:
  BackwardInThisThread() { state().set_multithreading_enabled(false); }
  ~BackwardInThisThread() { state().set_multithreading_enabled(was_enabled_); }
  BackwardInThisThread(const BackwardInThisThread&) = delete;
  BackwardInThisThread& operator=(const BackwardInThisThread&) = delete;

 private:
  static c10::AutogradState& state() { return c10::AutogradState::get_tls_state(); }
  const bool was_enabled_ = state().get_multithreading_enabled();
};

IKEBANA_INLINE bool KeptStep::is_written() const {
  return std::any_of(versions.begin(), versions.end(),
                     [](const Version& one) { return one.changed(); });
}

IKEBANA_INLINE void KeptStep::repeat() const {
  const bridge::RestoreGenerator keep_host{c10::Device(c10::kCPU)}, keep_device{on};
  const BackwardInThisThread in_this_thread;
  host.restore(), device.restore();
  make_again();
}

IKEBANA_INLINE void KeptSteps::forget_until(std::int64_t step) noexcept {
  while (!steps_.empty() && steps_.front().step <= step) steps_.pop_front();
}

}  // namespace ikebana::detail
