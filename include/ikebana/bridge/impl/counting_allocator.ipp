#pragma once
#include <algorithm>
#include <ikebana/bridge/counting_allocator.hpp>
#include <ikebana/bridge/exact_type.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/library.hpp>
#include <utility>

namespace ikebana::bridge {

IKEBANA_INLINE void MemorySource::attach(PeakTracker& tracker) {
  std::lock_guard lock(mutex_);
  tracker.next = std::exchange(first_, &tracker);
  restart_for(tracker);
}

IKEBANA_INLINE void MemorySource::detach(PeakTracker& tracker) {
  std::lock_guard lock(mutex_);
  auto** link = &first_;
  while (*link != &tracker) link = &(*link)->next;
  *link = tracker.next;
}

IKEBANA_INLINE int64_t MemorySource::peak(const PeakTracker& tracker) {
  std::lock_guard lock(mutex_);
  return std::max(tracker.peak, peak_since_restart());
}

IKEBANA_INLINE void MemorySource::reset_peak(PeakTracker& tracker) {
  std::lock_guard lock(mutex_);
  restart_for(tracker);
}

IKEBANA_INLINE void MemorySource::restart_for(PeakTracker& tracker) {
  const auto peak_so_far = restart_peak();
  for (auto* other = first_; other != nullptr; other = other->next)
    other->peak = std::max(other->peak, peak_so_far);
  tracker.peak = 0;
}

IKEBANA_INLINE c10::DataPtr CountingAllocatorV2::allocate(std::size_t bytes) {
  if (bytes == 0) return {nullptr, nullptr, &free_block, c10::Device(c10::kCPU)};
  if (bytes > max_bytes) return underlying().allocate(bytes);  // fails with LibTorch's own error
  AllocationPlanV1* const plan = allocation_plan;
  if (plan != nullptr)
    if (const auto place = plan->take(bytes); place.data != nullptr) return planned(place);
  const int64_t in_use = count(static_cast<int64_t>(bytes));
  auto block = allocate_block(bytes);
  const auto device = block.device();
  const auto deleter = block.get_deleter();
  auto* data = static_cast<std::byte*>(block.get()) + header_bytes;
  new (block.get()) Header{block.release_context(), deleter, this, static_cast<int64_t>(bytes)};
  raise_peak(in_use);
  tell([&](auto& observer) { observer.allocated(data, static_cast<int64_t>(bytes), in_use); });
  if (plan != nullptr) plan->allocated(data, bytes);
  return {data, data, &free_block, device};
}

IKEBANA_INLINE c10::DataPtr CountingAllocatorV2::planned(const AllocationPlanV1::Place& place) {
  if (!place.has_header) return {place.data, c10::Device(c10::kCPU)};
  auto* block = static_cast<std::byte*>(place.data) - header_bytes;
  new (block) Header{nullptr, [](void*) {}, this, 0};
  return {place.data, place.data, &free_block, c10::Device(c10::kCPU)};
}

IKEBANA_INLINE void CountingAllocatorV2::add(AllocationObserverV2& observer) {
  std::lock_guard lock(observers_mutex_);
  observer.next_ = first_observer_.load(std::memory_order_relaxed);
  first_observer_.store(&observer, std::memory_order_relaxed);
}

IKEBANA_INLINE void CountingAllocatorV2::remove(AllocationObserverV2& observer) noexcept {
  std::lock_guard lock(observers_mutex_);
  AllocationObserverV2* before = nullptr;
  auto* present = first_observer_.load(std::memory_order_relaxed);
  for (; present != nullptr && present != &observer; present = present->next_) before = present;
  if (present == nullptr) return;
  if (before == nullptr) first_observer_.store(present->next_, std::memory_order_relaxed);
  else before->next_ = present->next_;
}

IKEBANA_INLINE bool CountingAllocatorV2::replace_underlying(c10::Allocator& expected,
                                                            c10::Allocator& other) noexcept {
  auto* present = &expected;
  return underlying_.compare_exchange_strong(present, &other);
}

IKEBANA_INLINE void CountingAllocatorV2::copy_data(void* to, const void* from,
                                                   std::size_t count) const {
  default_copy_data(to, from, count);
}

IKEBANA_INLINE CountingAllocatorV2* CountingAllocatorV2::installed() noexcept {
  auto* present = c10::GetCPUAllocator();
  return present != nullptr && is_exactly<CountingAllocatorV2>(*present)
             ? static_cast<CountingAllocatorV2*>(present)
             : nullptr;
}

IKEBANA_INLINE CountingAllocatorV2& CountingAllocatorV2::install() {
  static std::mutex once;
  std::lock_guard lock(once);
  if (auto* present = installed()) return *present;
  ikebana::detail::keep_loaded(reinterpret_cast<const void*>(&free_block));
  auto* counting = new CountingAllocatorV2(*c10::GetCPUAllocator());
  for (int priority = 0; installed() != counting && priority < 256; ++priority)
    c10::SetCPUAllocator(counting, static_cast<uint8_t>(priority));
  return *counting;
}

IKEBANA_INLINE void CountingAllocatorV2::free_block(void* data) {
  if (data == nullptr) return;
  if (allocation_plan != nullptr) allocation_plan->freed(data);
  const auto header = *reinterpret_cast<Header*>(static_cast<std::byte*>(data) - header_bytes);
  if (header.bytes == 0) return;  // memory of a plan
  header.owner->bytes_.fetch_sub(header.bytes, std::memory_order_relaxed);
  header.owner->tell([&](auto& observer) { observer.freed(data, header.bytes); });
  header.deleter(header.context);
}

IKEBANA_INLINE int64_t CountingAllocatorV2::count(int64_t bytes) {
  const int64_t in_use = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (in_use > limit_.load(std::memory_order_relaxed)) refuse(bytes, in_use - bytes);
  return in_use;
}

IKEBANA_INLINE void CountingAllocatorV2::refuse(int64_t bytes, int64_t in_use) {
  bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  tell([&](auto& observer) { observer.refused(bytes, limit()); });
  throw OutOfMemory("cannot allocate memory on the CPU: " + std::to_string(bytes) +
                    " bytes were requested, " + std::to_string(in_use) +
                    " are in use, and the limit of this process is " +
                    std::to_string(limit_.load(std::memory_order_relaxed)) +
                    " (MemoryLimit). Raise it, or use less: more ranks of Shard<FSDP>, more "
                    "microbatches, Checkpoint<Full>.");
}

IKEBANA_INLINE c10::DataPtr CountingAllocatorV2::allocate_block(std::size_t bytes) {
  try {
    return underlying().allocate(bytes + header_bytes);
  } catch (...) {
    bytes_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
    tell([&](auto& observer) { observer.refused(static_cast<int64_t>(bytes), limit()); });
    throw;
  }
}

IKEBANA_INLINE void CountingAllocatorV2::raise_peak(int64_t bytes) noexcept {
  auto peak = peak_.load(std::memory_order_relaxed);
  while (bytes > peak && !peak_.compare_exchange_weak(peak, bytes, std::memory_order_relaxed)) {
  }
}

IKEBANA_INLINE int64_t CountingAllocatorV2::restart_peak() {
  const auto peak_so_far = peak_.exchange(now(), std::memory_order_relaxed);
  raise_peak(now());  // another thread may have allocated between the two calls of now()
  return peak_so_far;
}

}  // namespace ikebana::bridge
