#pragma once
// Counts per tensor that all code of a process shares.
#include <ikebana/detail/torch.hpp>
#include <mutex>
#include <unordered_map>

namespace ikebana::detail {

/// Counts per tensor, in one table for each `Purpose` in the process. This class and every
/// `Purpose` have default visibility, so that plugins that are built with hidden symbols share the
/// table. Lock `mutex` for any access.
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
