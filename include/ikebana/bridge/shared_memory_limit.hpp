#pragma once
// Defines a limit of memory that several policies and threads may set at once.
#include <ikebana/bridge/counting_allocator.hpp>
#include <mutex>

namespace ikebana::bridge {

/// RAII: at most `bytes` may be in use on the CPU, as MemoryLimit does, and limits of several
/// policies and threads may begin and end in any order: the smallest of them and of the MemoryLimit
/// around them holds. There is no limit if `bytes` is 0, or while this thread computes without
/// values. Allocates nothing.
class SharedMemoryLimit {
 public:
  explicit SharedMemoryLimit(std::int64_t bytes);
  ~SharedMemoryLimit();
  /// Returns true if this is the limit that holds.
  bool holds() const noexcept;
  SharedMemoryLimit(const SharedMemoryLimit&) = delete;
  SharedMemoryLimit& operator=(const SharedMemoryLimit&) = delete;

 private:
  static CountingAllocatorV2& allocator() { return CountingAllocatorV2::install(); }
  static std::int64_t smallest() noexcept;
  static void apply() noexcept { allocator().set_limit(smallest()); }

  static inline std::mutex mutex_;
  static inline SharedMemoryLimit* first_ = nullptr;
  static inline std::int64_t around_ =
      0;  // the MemoryLimit that was in force before the first of them
  std::int64_t bytes_;
  SharedMemoryLimit* next_ = nullptr;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/shared_memory_limit.ipp>
#endif
