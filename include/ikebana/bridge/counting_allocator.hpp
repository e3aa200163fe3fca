#pragma once
// Counts the bytes that LibTorch allocates on the CPU: its own allocator does not, so a counting
// allocator is installed in front of it.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ikebana/bridge/exact_type.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/library.hpp>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

namespace ikebana::bridge {

/// The memory of one device, in bytes. Each PeakTracker has a peak of its own: resetting one does
/// not change what the others report.
class MemorySource {
 public:
  struct PeakTracker {
    int64_t peak = 0;
    PeakTracker* next = nullptr;
  };

  virtual ~MemorySource() = default;
  virtual int64_t now() = 0;

  void attach(PeakTracker& tracker) {
    std::lock_guard lock(mutex_);
    tracker.next = std::exchange(first_, &tracker);
    restart_for(tracker);
  }

  void detach(PeakTracker& tracker) {
    std::lock_guard lock(mutex_);
    auto** link = &first_;
    while (*link != &tracker) link = &(*link)->next;
    *link = tracker.next;
  }

  int64_t peak(const PeakTracker& tracker) {
    std::lock_guard lock(mutex_);
    return std::max(tracker.peak, peak_since_restart());
  }

  void reset_peak(PeakTracker& tracker) {
    std::lock_guard lock(mutex_);
    restart_for(tracker);
  }

 private:
  virtual int64_t peak_since_restart() = 0;
  /// Returns the peak since the last restart; the next peak starts at the bytes in use now.
  virtual int64_t restart_peak() = 0;

  void restart_for(PeakTracker& tracker) {
    const auto peak_so_far = restart_peak();
    for (auto* other = first_; other != nullptr; other = other->next)
      other->peak = std::max(other->peak, peak_so_far);
    tracker.peak = 0;
  }

  std::mutex mutex_;
  PeakTracker* first_ = nullptr;
};

/// Hears what a CountingAllocator allocates and frees, on the thread that does it and under a lock
/// of all threads. It must neither throw nor use that allocator, which would wait for the lock.
class AllocationObserverV2 {
 public:
  AllocationObserverV2() = default;
  AllocationObserverV2(const AllocationObserverV2&) = delete;
  AllocationObserverV2& operator=(const AllocationObserverV2&) = delete;
  virtual ~AllocationObserverV2() = default;
  /// `in_use` bytes with these; where several threads allocate at once, when these were counted.
  virtual void allocated(const void* data, int64_t bytes, int64_t in_use) noexcept = 0;
  /// Before the memory is freed, so that no other block has its address yet.
  virtual void freed(const void* data, int64_t bytes) noexcept = 0;
  /// An allocation beyond the limit, or that the system refused. Nothing was counted.
  virtual void refused(int64_t bytes, int64_t limit) noexcept = 0;
  /// What the block at this address is, as `parameter` of the unit `block0`; said by what knows it.
  virtual void described(const void* data, const char* kind, const char* unit) noexcept = 0;

 private:
  friend class CountingAllocatorV2;
  AllocationObserverV2* next_ = nullptr;
};

/// Counts the bytes that are requested, refuses those beyond a limit, and forwards to the allocator
/// that was installed before. A header of 64 bytes in front of each block records how to free it;
/// 64 bytes preserve the block's alignment. Never destroyed, because blocks may be freed at any
/// time until the process ends. Not final: otherwise the compiler would devirtualize calls, and
/// call this library's functions on an allocator that another library installed.
class CountingAllocatorV2 : public c10::Allocator, public MemorySource {
 public:
  explicit CountingAllocatorV2(c10::Allocator& underlying) : underlying_(&underlying) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free_block, c10::Device(c10::kCPU)};
    if (bytes > max_bytes) return underlying().allocate(bytes);  // fails with LibTorch's own error
    const int64_t in_use = count(static_cast<int64_t>(bytes));
    auto block = allocate_block(bytes);
    const auto device = block.device();
    const auto deleter = block.get_deleter();
    auto* data = static_cast<std::byte*>(block.get()) + header_bytes;
    new (block.get()) Header{block.release_context(), deleter, this, static_cast<int64_t>(bytes)};
    raise_peak(in_use);
    tell([&](auto& observer) { observer.allocated(data, static_cast<int64_t>(bytes), in_use); });
    return {data, data, &free_block, device};
  }

  static constexpr int64_t no_limit = std::numeric_limits<int64_t>::max();
  /// How many bytes may be in use at once; an allocation beyond that throws OutOfMemory. Returns
  /// the limit until now.
  int64_t set_limit(int64_t bytes) noexcept { return limit_.exchange(bytes); }
  int64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }

  /// `observer` hears every call from now on, until it is removed. While there is none, an
  /// allocation and a free cost one load more.
  void add(AllocationObserverV2& observer) {
    std::lock_guard lock(observers_mutex_);
    observer.next_ = first_observer_.load(std::memory_order_relaxed);
    first_observer_.store(&observer, std::memory_order_relaxed);
  }
  /// Returns when no thread calls it any more.
  void remove(AllocationObserverV2& observer) noexcept {
    std::lock_guard lock(observers_mutex_);
    AllocationObserverV2* before = nullptr;
    auto* present = first_observer_.load(std::memory_order_relaxed);
    for (; present != nullptr && present != &observer; present = present->next_) before = present;
    if (present == nullptr) return;
    if (before == nullptr) first_observer_.store(present->next_, std::memory_order_relaxed);
    else before->next_ = present->next_;
  }
  /// In a copy of this process, where another thread may have held the lock: none hears any more.
  void forget_observers() noexcept { first_observer_.store(nullptr, std::memory_order_relaxed); }
  /// Calls `f(observer)` for each, under the lock.
  template <class F>
  void tell(const F& f) noexcept {
    if (first_observer_.load(std::memory_order_relaxed) == nullptr) return;
    std::lock_guard lock(observers_mutex_);
    auto* one = first_observer_.load(std::memory_order_relaxed);
    for (; one != nullptr; one = one->next_) f(*one);
  }
  /// The allocator to which it forwards. Another one may be put below it at any time, since each
  /// block records how it is freed. Returns false where it was no longer `expected`.
  c10::Allocator& underlying() const noexcept { return *underlying_.load(); }
  bool replace_underlying(c10::Allocator& expected, c10::Allocator& other) noexcept {
    auto* present = &expected;
    return underlying_.compare_exchange_strong(present, &other);
  }

  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  int64_t now() override { return bytes_.load(std::memory_order_relaxed); }

  /// The CPU's allocator if it is a CountingAllocatorV2, of this or another library; else nullptr.
  static CountingAllocatorV2* installed() noexcept {
    auto* present = c10::GetCPUAllocator();
    return present != nullptr && is_exactly<CountingAllocatorV2>(*present)
               ? static_cast<CountingAllocatorV2*>(present)
               : nullptr;
  }

  /// Installs a counting allocator unless there is one; returns the one that is installed.
  static CountingAllocatorV2& install() {
    static std::mutex once;
    std::lock_guard lock(once);
    if (auto* present = installed()) return *present;
    ikebana::detail::keep_loaded(reinterpret_cast<const void*>(&free_block));
    auto* counting = new CountingAllocatorV2(*c10::GetCPUAllocator());
    for (int priority = 0; installed() != counting && priority < 256; ++priority)
      c10::SetCPUAllocator(counting, static_cast<uint8_t>(priority));
    return *counting;
  }

 private:
  static constexpr std::size_t header_bytes = 64;
  static constexpr auto max_bytes = std::numeric_limits<int64_t>::max() - header_bytes;
  struct Header {
    void* context;
    c10::DeleterFnPtr deleter;
    CountingAllocatorV2* owner;
    int64_t bytes;
  };
  static_assert(sizeof(Header) <= header_bytes);

  static void free_block(void* data) {
    if (data == nullptr) return;
    const auto header = *reinterpret_cast<Header*>(static_cast<std::byte*>(data) - header_bytes);
    header.owner->bytes_.fetch_sub(header.bytes, std::memory_order_relaxed);
    header.owner->tell([&](auto& observer) { observer.freed(data, header.bytes); });
    header.deleter(header.context);
  }

  /// Counts an allocation, and returns the bytes in use with it. Throws beyond the limit.
  int64_t count(int64_t bytes) {
    const int64_t in_use = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    if (in_use > limit_.load(std::memory_order_relaxed)) refuse(bytes, in_use - bytes);
    return in_use;
  }
  [[noreturn]] void refuse(int64_t bytes, int64_t in_use) {
    bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    tell([&](auto& observer) { observer.refused(bytes, limit()); });
    throw OutOfMemory("cannot allocate memory on the CPU: " + std::to_string(bytes) +
                      " bytes were requested, " + std::to_string(in_use) +
                      " are in use, and the limit of this process is " +
                      std::to_string(limit_.load(std::memory_order_relaxed)) +
                      " (MemoryLimit). Raise it, or use less: more ranks of Shard<FSDP>, more "
                      "microbatches, Checkpoint<Full>.");
  }
  c10::DataPtr allocate_block(std::size_t bytes) {
    try {
      return underlying().allocate(bytes + header_bytes);
    } catch (...) {
      bytes_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
      tell([&](auto& observer) { observer.refused(static_cast<int64_t>(bytes), limit()); });
      throw;
    }
  }

  void raise_peak(int64_t bytes) noexcept {
    auto peak = peak_.load(std::memory_order_relaxed);
    while (bytes > peak && !peak_.compare_exchange_weak(peak, bytes, std::memory_order_relaxed)) {
    }
  }

  int64_t peak_since_restart() override { return peak_.load(std::memory_order_relaxed); }
  int64_t restart_peak() override {
    const auto peak_so_far = peak_.exchange(now(), std::memory_order_relaxed);
    raise_peak(now());  // another thread may have allocated between the two calls of now()
    return peak_so_far;
  }

  std::atomic<c10::Allocator*> underlying_;  // the layout is that of a pointer
  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> limit_{no_limit};
  std::atomic<AllocationObserverV2*> first_observer_{nullptr};
  std::mutex observers_mutex_;
};

}  // namespace ikebana::bridge
