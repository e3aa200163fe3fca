#pragma once
#include <csignal>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/sigterm.hpp>

namespace ikebana::detail {

IKEBANA_INLINE SigtermRequest::SigtermRequest(bool enabled) : enabled_(enabled) {
  if (!enabled_) return;
  Shared& shared = Shared::get();
  std::lock_guard lock(shared.mutex);
  if (shared.requests++ > 0) return;
  shared.received = shared.reported = false;
  struct sigaction action{};
  action.sa_handler = [](int) { Shared::get().received = true; };
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGTERM, &action, &shared.previous_action);
}

IKEBANA_INLINE SigtermRequest::~SigtermRequest() {
  if (enabled_ && is_unreported_after_last()) ::raise(SIGTERM);
}

IKEBANA_INLINE bool SigtermRequest::received() const {
  if (!enabled_ || !Shared::get().received) return false;
  Shared::get().reported = true;
  return true;
}

IKEBANA_INLINE bool SigtermRequest::is_unreported_after_last() {
  Shared& shared = Shared::get();
  std::lock_guard lock(shared.mutex);
  if (--shared.requests > 0) return false;
  ::sigaction(SIGTERM, &shared.previous_action, nullptr);
  return shared.received && !shared.reported;
}

}  // namespace ikebana::detail
