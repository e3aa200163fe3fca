#pragma once
// Counts the bytes that a thread allocates: by new, and by LibTorch for tensors.
#include <cstdint>

namespace campaign {

/// RAII: counts on its thread while it exists.
class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  /// Returns the largest single allocation.
  std::int64_t largest() const;
  /// Returns the peak above the beginning: the peak of new plus the peak of tensors, even if they
  /// occur at different times.
  std::int64_t peak() const;
};

}  // namespace campaign
