#pragma once
// SIGTERM as a request that the program handles at a suitable time.
#include <signal.h>

#include <atomic>
#include <mutex>

namespace ikebana::detail {

/// RAII: while at least one exists and is enabled, the first SIGTERM only sets a flag, which all of
/// them see, also requests that are made later, before the last one ends. The second SIGTERM ends
/// the process. When the last one ends, the handler that was set before the first is restored; a
/// SIGTERM that no request has reported then gets that handler. They may overlap in any order, on
/// any threads.
class SigtermRequest {
 public:
  explicit SigtermRequest(bool enabled);
  ~SigtermRequest();
  SigtermRequest(const SigtermRequest&) = delete;
  SigtermRequest& operator=(const SigtermRequest&) = delete;

  /// Returns true once SIGTERM was received.
  bool received() const;

 private:
  /// The data that all requests of the process share, also requests of plugins with hidden symbols.
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
  static bool is_unreported_after_last();

  bool enabled_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/sigterm.ipp>
#endif
