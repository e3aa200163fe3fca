#pragma once
// Whether this thread computes with tensors that have no memory.

#include <cstdint>
#include <ikebana/detail/flag_scope.hpp>

namespace ikebana::detail {

inline constinit thread_local bool is_without_values = false;

/// True while this thread only finds out what a computation would allocate (fake/fake_mode.hpp):
/// loops over memory do nothing.
inline bool without_values() noexcept { return is_without_values; }

/// True while tensors without values stand for memory that is none of a device's, as a file.
inline constinit thread_local bool is_made_in_file = false;

/// RAII: tensors that this thread makes stand for what lies in a file.
struct MadeInFileScope : FlagScope {
  MadeInFileScope() : FlagScope(is_made_in_file) {}
};

/// Of this thread: how many nanoseconds its computations without values would have taken, about
/// (fake/operator_cost.hpp).
inline constinit thread_local std::int64_t nanoseconds_without_values = 0;

/// RAII: this thread computes without values.
struct WithoutValuesScope : FlagScope {
  WithoutValuesScope() : FlagScope(is_without_values) {}
};

}  // namespace ikebana::detail
