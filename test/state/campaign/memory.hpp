#pragma once
// Bytes that the program asks for: by new, and by LibTorch for tensors.
#include <cstdint>

namespace campaign {

/// Counts on the thread that made it, from then on, until it is gone.
class MemoryWatch {
 public:
  MemoryWatch();
  ~MemoryWatch();
  /// The largest single request.
  std::int64_t largest() const;
  /// The most at one time above what there was: by new, and for tensors, even if not together.
  std::int64_t peak() const;
};

}  // namespace campaign
