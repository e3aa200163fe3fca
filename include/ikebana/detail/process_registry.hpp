#pragma once
// State about tensors that all code of a process shares.
#include <ikebana/detail/torch.hpp>
#include <mutex>
#include <unordered_map>

namespace ikebana::detail {

/// Counts per tensor, one table for each `Purpose` in the process: also plugins that are built with
/// hidden symbols share it, which is why this class and every `Purpose` have default visibility.
/// Lock `mutex` for any access.
template <class Purpose>
struct __attribute__((visibility("default"))) ProcessRegistry {
  std::mutex mutex;
  std::unordered_map<c10::TensorImpl*, int> counts;

  static ProcessRegistry& get() {
    static auto& registry = *new ProcessRegistry;  // trainers may be destroyed after statics
    return registry;
  }
};

}  // namespace ikebana::detail
