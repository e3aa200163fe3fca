#pragma once
// LibTorch's CPU allocator does not count, so one that does is put in front of it.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ikebana/posix/library.hpp>
#include <ikebana/detail/torch.hpp>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

namespace ikebana::bridge {

/// The bytes of one device. Each watch has a peak of its own, so that resetting one hides nothing
/// from another.
class MemorySource {
 public:
  struct Watch {
    int64_t peak = 0;
    Watch* next = nullptr;
  };

  virtual ~MemorySource() = default;
  virtual int64_t now() = 0;

  void attach(Watch& watch) {
    std::lock_guard lock(mutex_);
    watch.next = std::exchange(first_, &watch);
    restart_for(watch);
  }

  void detach(Watch& watch) {
    std::lock_guard lock(mutex_);
    auto** link = &first_;
    while (*link != &watch) link = &(*link)->next;
    *link = watch.next;
  }

  int64_t peak(const Watch& watch) {
    std::lock_guard lock(mutex_);
    return std::max(watch.peak, highest());
  }

  void reset_peak(Watch& watch) {
    std::lock_guard lock(mutex_);
    restart_for(watch);
  }

 private:
  /// The most bytes since the last `restart`, which returns it and begins again at the present
  /// ones.
  virtual int64_t highest() = 0;
  virtual int64_t restart() = 0;

  void restart_for(Watch& watch) {
    const auto until_now = restart();
    for (auto* other = first_; other != nullptr; other = other->next)
      other->peak = std::max(other->peak, until_now);
    watch.peak = 0;
  }

  std::mutex mutex_;
  Watch* first_ = nullptr;
};

/// Counts the bytes asked of the allocator behind it. 64 bytes before each block say how to give it
/// back; so many keep its alignment. Never destroyed: blocks outlive everything. Not final, or the
/// compiler would call this library's functions on the allocator that another library installed.
class CountingAllocatorV1 : public c10::Allocator, public MemorySource {
 public:
  explicit CountingAllocatorV1(c10::Allocator& behind) : behind_(behind) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &restore_dtype, c10::Device(c10::kCPU)};
    if (bytes > max) return behind_.allocate(bytes);  // fails, and says so in its own words
    auto block = behind_.allocate(bytes + header_bytes);
    const auto device = block.device();
    const auto deleter = block.get_deleter();
    auto* data = static_cast<std::byte*>(block.get()) + header_bytes;
    new (block.get()) Header{block.release_context(), deleter, this, static_cast<int64_t>(bytes)};
    add(static_cast<int64_t>(bytes));
    return {data, data, &restore_dtype, device};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &restore_dtype; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  int64_t now() override { return now_.load(std::memory_order_relaxed); }

  /// The CPU's allocator where it is one of these, also another library's; else nullptr.
  static CountingAllocatorV1* installed() noexcept {
    auto* present = c10::GetCPUAllocator();
    return present != nullptr && is_exactly<CountingAllocatorV1>(*present)
               ? static_cast<CountingAllocatorV1*>(present)
               : nullptr;
  }

  static CountingAllocatorV1& install() {
    static std::mutex once;
    std::lock_guard lock(once);
    if (auto* present = installed()) return *present;
    keep_loaded(reinterpret_cast<const void*>(&restore_dtype));
    auto* counting = new CountingAllocatorV1(*c10::GetCPUAllocator());
    for (int priority = 0; installed() != counting && priority < 256; ++priority)
      c10::SetCPUAllocator(counting, static_cast<uint8_t>(priority));
    return *counting;
  }

 private:
  static constexpr std::size_t header_bytes = 64;
  static constexpr auto max = std::numeric_limits<int64_t>::max() - header_bytes;
  struct Header {
    void* context;
    c10::DeleterFnPtr deleter;
    CountingAllocatorV1* owner;
    int64_t bytes;
  };
  static_assert(sizeof(Header) <= header_bytes);

  static void restore_dtype(void* data) {
    if (data == nullptr) return;
    const auto header = *reinterpret_cast<Header*>(static_cast<std::byte*>(data) - header_bytes);
    header.owner->now_.fetch_sub(header.bytes, std::memory_order_relaxed);
    header.deleter(header.context);
  }

  void add(int64_t bytes) noexcept {
    raise(now_.fetch_add(bytes, std::memory_order_relaxed) + bytes);
  }

  void raise(int64_t level) noexcept {
    auto highest = highest_.load(std::memory_order_relaxed);
    while (level > highest &&
           !highest_.compare_exchange_weak(highest, level, std::memory_order_relaxed)) {
    }
  }

  int64_t highest() override { return highest_.load(std::memory_order_relaxed); }
  int64_t restart() override {
    const auto until_now = highest_.exchange(now(), std::memory_order_relaxed);
    raise(now());  // another thread may have taken more between the two
    return until_now;
  }

  c10::Allocator& behind_;
  std::atomic<int64_t> now_{0};
  std::atomic<int64_t> highest_{0};
};

}  // namespace ikebana::bridge
