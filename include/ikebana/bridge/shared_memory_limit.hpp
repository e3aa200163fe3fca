#pragma once
// A limit of memory that several policies and threads may set at once.
#include <ikebana/bridge/counting_allocator.hpp>
#include <ikebana/detail/without_values.hpp>
#include <mutex>
#include <utility>

namespace ikebana::bridge {

/// RAII: at most `bytes` may be in use on the CPU, as MemoryLimit does, among limits of several
/// policies and threads that begin and end in any order: the smallest of all and of the MemoryLimit
/// around them holds. 0, and while this thread computes without values: no limit. Allocates
/// nothing.
/// A template, so that only files that use it compile it.
template <class = void>
class SharedMemoryLimit {
 public:
  explicit SharedMemoryLimit(std::int64_t bytes)
      : bytes_(ikebana::detail::without_values() ? 0 : bytes) {
    if (bytes_ == 0) return;
    std::lock_guard lock(mutex_);
    if (first_ == nullptr) around_ = allocator().limit();
    next_ = std::exchange(first_, this);
    apply();
  }
  ~SharedMemoryLimit() {
    if (bytes_ == 0) return;
    std::lock_guard lock(mutex_);
    SharedMemoryLimit** link = &first_;
    while (*link != this) link = &(*link)->next_;
    *link = next_;
    apply();
  }
  /// True where this is the limit that holds.
  bool holds() const noexcept {
    std::lock_guard lock(mutex_);
    return bytes_ != 0 && bytes_ == smallest() && bytes_ < around_;
  }
  SharedMemoryLimit(const SharedMemoryLimit&) = delete;
  SharedMemoryLimit& operator=(const SharedMemoryLimit&) = delete;

 private:
  static CountingAllocatorV2& allocator() { return CountingAllocatorV2::install(); }
  static std::int64_t smallest() noexcept {
    std::int64_t bytes = around_;
    for (const SharedMemoryLimit* one = first_; one != nullptr; one = one->next_)
      bytes = std::min(bytes, one->bytes_);
    return bytes;
  }
  static void apply() noexcept { allocator().set_limit(smallest()); }

  static inline std::mutex mutex_;
  static inline SharedMemoryLimit* first_ = nullptr;
  static inline std::int64_t around_ = 0;  // of the MemoryLimit that was in force before the first
  std::int64_t bytes_;
  SharedMemoryLimit* next_ = nullptr;
};

}  // namespace ikebana::bridge
