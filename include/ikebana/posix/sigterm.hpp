#pragma once
// SIGTERM as a request that the program handles at a suitable time.
#include <signal.h>

#include <atomic>
#include <mutex>

namespace ikebana::detail {

/// RAII: while at least one exists and is enabled, the first SIGTERM only sets a flag, which all of
/// them see, also those that are made before the last one ends. The second SIGTERM ends the
/// process. When the last one ends, the handler of before the first is restored; a SIGTERM that
/// none of them has reported then gets that handler. They may overlap in any order, on any threads.
class SigtermRequest {
 public:
  explicit SigtermRequest(bool enabled) : enabled_(enabled) {
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
  ~SigtermRequest() {
    if (enabled_ && is_unreported_after_last()) ::raise(SIGTERM);
  }
  SigtermRequest(const SigtermRequest&) = delete;
  SigtermRequest& operator=(const SigtermRequest&) = delete;

  /// True once SIGTERM was received.
  bool received() const {
    if (!enabled_ || !Shared::get().received) return false;
    Shared::get().reported = true;
    return true;
  }

 private:
  /// What all requests of the process share, also those of plugins with hidden symbols.
  struct __attribute__((visibility("default"))) Shared {
    std::mutex mutex;
    int requests = 0;
    struct sigaction previous_action{};
    std::atomic<bool> received = false, reported = false;

    static Shared& get() {
      static auto& shared = *new Shared;
      return shared;
    }
  };
  /// Restores the former handler if this is the last request.
  static bool is_unreported_after_last() {
    Shared& shared = Shared::get();
    std::lock_guard lock(shared.mutex);
    if (--shared.requests > 0) return false;
    ::sigaction(SIGTERM, &shared.previous_action, nullptr);
    return shared.received && !shared.reported;
  }

  bool enabled_;
};

}  // namespace ikebana::detail
