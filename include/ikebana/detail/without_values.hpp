#pragma once
// Whether this thread computes with tensors that have no memory.

namespace ikebana::detail {

inline constinit thread_local bool is_without_values = false;

/// True while this thread only finds out what a computation would allocate (bridge/fake_mode.hpp):
/// loops over memory do nothing.
inline bool without_values() noexcept { return is_without_values; }

/// RAII: this thread computes without values.
class WithoutValuesScope {
 public:
  WithoutValuesScope() : before_(is_without_values) { is_without_values = true; }
  ~WithoutValuesScope() { is_without_values = before_; }
  WithoutValuesScope(const WithoutValuesScope&) = delete;
  WithoutValuesScope& operator=(const WithoutValuesScope&) = delete;

 private:
  bool before_;
};

}  // namespace ikebana::detail
