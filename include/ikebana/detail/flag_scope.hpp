#pragma once
// Sets a flag for the lifetime of an object.
#include <utility>

namespace ikebana::detail {

/// RAII: the flag has this value while the object exists, and then its former value.
class FlagScope {
 public:
  explicit FlagScope(bool& flag, bool value = true)
      : flag_(flag), before_(std::exchange(flag, value)) {}
  ~FlagScope() { flag_ = before_; }
  FlagScope(const FlagScope&) = delete;
  FlagScope& operator=(const FlagScope&) = delete;

 private:
  bool& flag_;
  bool before_;
};

}  // namespace ikebana::detail
