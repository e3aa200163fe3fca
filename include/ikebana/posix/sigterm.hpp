#pragma once
// SIGTERM as a request that is answered at the next good moment.
#include <signal.h>

#include <atomic>

namespace ikebana::detail {

/// While one lives, SIGTERM only sets a flag; afterwards it does what it did before. A second
/// SIGTERM does so at once.
class Sigterm {
 public:
  explicit Sigterm(bool wanted) : wanted_(wanted) {
    if (!wanted_) return;
    came() = false;
    struct sigaction action{};
    action.sa_handler = [](int) { came() = true; };
    action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGTERM, &action, &before_);
  }
  ~Sigterm() {
    if (wanted_) ::sigaction(SIGTERM, &before_, nullptr);
  }
  Sigterm(const Sigterm&) = delete;
  Sigterm& operator=(const Sigterm&) = delete;

  explicit operator bool() const { return wanted_ && came(); }

 private:
  static std::atomic<bool>& came() {
    static std::atomic<bool> flag = false;
    return flag;
  }

  bool wanted_;
  struct sigaction before_{};
};

}  // namespace ikebana::detail
