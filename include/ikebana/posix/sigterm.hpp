#pragma once
// SIGTERM as a request that the program handles at a suitable time.
#include <signal.h>

#include <atomic>

namespace ikebana::detail {

/// RAII: while one exists and is enabled, the first SIGTERM only sets a flag. The second one, and
/// any after destruction, has the effect that it had before.
class SigtermRequest {
 public:
  explicit SigtermRequest(bool enabled) : enabled_(enabled) {
    if (!enabled_) return;
    flag() = false;
    struct sigaction action{};
    action.sa_handler = [](int) { flag() = true; };
    action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGTERM, &action, &previous_action_);
  }
  ~SigtermRequest() {
    if (enabled_) ::sigaction(SIGTERM, &previous_action_, nullptr);
  }
  SigtermRequest(const SigtermRequest&) = delete;
  SigtermRequest& operator=(const SigtermRequest&) = delete;

  /// True once SIGTERM was received.
  bool received() const { return enabled_ && flag(); }

 private:
  static std::atomic<bool>& flag() {
    static std::atomic<bool> received = false;
    return received;
  }

  bool enabled_;
  struct sigaction previous_action_{};
};

}  // namespace ikebana::detail
