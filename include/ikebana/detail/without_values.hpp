#pragma once
// Defines flags of a thread that computes with tensors that have no memory.

#include <ikebana/detail/flag_scope.hpp>

namespace ikebana::detail {

inline constinit thread_local bool is_without_values = false;

/// Returns true while this thread only finds out what a computation would allocate
/// (fake/fake_mode.hpp). Loops over memory then do nothing.
inline bool without_values() noexcept { return is_without_values; }

/// True while tensors without values stand for memory that does not belong to a device, such as a
/// file.
inline constinit thread_local bool is_made_in_file = false;

/// RAII: tensors that this thread makes stand for tensors in a file.
struct MadeInFileScope : FlagScope {
  MadeInFileScope() : FlagScope(is_made_in_file) {}
};

/// RAII: this thread computes without values.
struct WithoutValuesScope : FlagScope {
  WithoutValuesScope() : FlagScope(is_without_values) {}
};

}  // namespace ikebana::detail
