#pragma once
// Counts the bytes that a thread allocates: by new, and by LibTorch for tensors.
#include <cstdint>

namespace campaign {

/// RAII: counts on its thread while it exists.
class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  /// The largest single allocation.
  std::int64_t largest() const;
  /// The peak above the beginning: that of new plus that of tensors, even if at different times.
  std::int64_t peak() const;
};

}  // namespace campaign
