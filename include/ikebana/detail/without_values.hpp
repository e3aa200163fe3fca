#pragma once
// Whether this thread computes with tensors that have no memory.

#include <cstdint>

namespace ikebana::detail {

inline constinit thread_local bool is_without_values = false;

/// True while this thread only finds out what a computation would allocate (bridge/fake_mode.hpp):
/// loops over memory do nothing.
inline bool without_values() noexcept { return is_without_values; }

/// True while tensors without values stand for memory that is none of a device's, as a file.
inline constinit thread_local bool is_made_in_file = false;

/// RAII: tensors that this thread makes stand for what lies in a file.
class MadeInFileScope {
 public:
  MadeInFileScope() : before_(is_made_in_file) { is_made_in_file = true; }
  ~MadeInFileScope() { is_made_in_file = before_; }
  MadeInFileScope(const MadeInFileScope&) = delete;
  MadeInFileScope& operator=(const MadeInFileScope&) = delete;

 private:
  bool before_;
};

/// Of this thread: how many nanoseconds its computations without values would have taken, about
/// (bridge/operator_cost.hpp).
inline constinit thread_local std::int64_t nanoseconds_without_values = 0;

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
