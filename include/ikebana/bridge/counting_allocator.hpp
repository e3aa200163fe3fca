#pragma once
// Counts the bytes that LibTorch allocates on the CPU: its own allocator does not, so a counting
// allocator is installed in front of it.

#include <atomic>
#include <cstddef>
#include <ikebana/bridge/allocation_plan.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch.hpp>
#include <limits>
#include <mutex>

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

  void attach(PeakTracker& tracker);

  void detach(PeakTracker& tracker);

  int64_t peak(const PeakTracker& tracker);

  void reset_peak(PeakTracker& tracker);

 private:
  virtual int64_t peak_since_restart() = 0;
  /// Returns the peak since the last restart; the next peak starts at the bytes in use now.
  virtual int64_t restart_peak() = 0;

  void restart_for(PeakTracker& tracker);

  std::mutex mutex_;
  PeakTracker* first_ = nullptr;
};

/// Hears what a CountingAllocator allocates and frees, on the thread that does it and under a lock
/// that all threads share. It must neither throw nor use that allocator, which would wait for the
/// lock.
class AllocationObserverV2 {
 public:
  AllocationObserverV2() = default;
  AllocationObserverV2(const AllocationObserverV2&) = delete;
  AllocationObserverV2& operator=(const AllocationObserverV2&) = delete;
  virtual ~AllocationObserverV2() = default;
  /// `in_use` includes these bytes. If several threads allocate at once, it is the number when
  /// these were counted.
  virtual void allocated(const void* data, int64_t bytes, int64_t in_use) noexcept = 0;
  /// It is called before the memory is freed, so that no other block has its address yet.
  virtual void freed(const void* data, int64_t bytes) noexcept = 0;
  /// Is called for an allocation beyond the limit, or that the system refused. Nothing was counted.
  virtual void refused(int64_t bytes, int64_t limit) noexcept = 0;
  /// It is called by code that knows the use of the block at this address, such as `parameter` of
  /// the unit `block0`.
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

  IKEBANA_INLINE c10::DataPtr allocate(std::size_t bytes) override;

  static constexpr int64_t no_limit = std::numeric_limits<int64_t>::max();
  /// Sets how many bytes may be in use at once; an allocation beyond that throws OutOfMemory.
  /// Returns the former limit.
  int64_t set_limit(int64_t bytes) noexcept { return limit_.exchange(bytes); }
  int64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }

  /// Reports every call to `observer` from now on, until it is removed. Without observers, an
  /// allocation and a free cost one load more.
  void add(AllocationObserverV2& observer);
  /// Returns when no thread calls it any more.
  void remove(AllocationObserverV2& observer) noexcept;
  /// For a copy of this process, in which another thread may have held the lock: removes all
  /// observers.
  void forget_observers() noexcept { first_observer_.store(nullptr, std::memory_order_relaxed); }
  /// Calls `f(observer)` for each, under the lock.
  template <class F>
  void tell(const F& f) noexcept {
    if (first_observer_.load(std::memory_order_relaxed) == nullptr) return;
    std::lock_guard lock(observers_mutex_);
    auto* one = first_observer_.load(std::memory_order_relaxed);
    for (; one != nullptr; one = one->next_) f(*one);
  }
  /// Returns the allocator to which it forwards. `replace_underlying` may put another one below at
  /// any time, since each block records how it is freed; it returns false if the allocator is no
  /// longer `expected`.
  c10::Allocator& underlying() const noexcept { return *underlying_.load(); }
  bool replace_underlying(c10::Allocator& expected, c10::Allocator& other) noexcept;

  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  IKEBANA_INLINE void copy_data(void* to, const void* from, std::size_t count) const override;

  int64_t now() override { return bytes_.load(std::memory_order_relaxed); }

  /// Returns the CPU's allocator if it is a CountingAllocatorV2, of this or another library;
  /// otherwise null.
  static CountingAllocatorV2* installed() noexcept;

  /// Installs a counting allocator unless there is one; returns the one that is installed.
  static CountingAllocatorV2& install();

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

  static void free_block(void* data);

  /// Counts an allocation, and returns the bytes in use with it. Throws beyond the limit.
  int64_t count(int64_t bytes);
  [[noreturn]] void refuse(int64_t bytes, int64_t in_use);
  c10::DataPtr allocate_block(std::size_t bytes);
  /// Returns memory of this thread's plan, which is not counted again.
  c10::DataPtr planned(const AllocationPlanV1::Place& place);

  void raise_peak(int64_t bytes) noexcept;

  int64_t peak_since_restart() override { return peak_.load(std::memory_order_relaxed); }
  IKEBANA_INLINE int64_t restart_peak() override;

  std::atomic<c10::Allocator*> underlying_;  // the layout is that of a pointer
  std::atomic<int64_t> bytes_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> limit_{no_limit};
  std::atomic<AllocationObserverV2*> first_observer_{nullptr};
  std::mutex observers_mutex_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/counting_allocator.ipp>
#endif
