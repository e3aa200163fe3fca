#pragma once
// Reads a device's own facts about its memory, beyond the bytes in use, and releases cached memory.
#include <ikebana/bridge/version.hpp>
#include <ikebana/error.hpp>

namespace ikebana {

/// Bytes of one device. A fact that the device or this version of LibTorch does not report has no
/// value.
struct MemoryFacts {
  std::optional<std::int64_t> free;   ///< the bytes that can be allocated on the machine, or on the
                                      ///< device
  std::optional<std::int64_t> total;  ///< the bytes of the machine or its control group, or of the
                                      ///< device
  std::optional<std::int64_t> resident;  ///< CPU: the bytes of this process, in pages
  std::optional<std::int64_t> reserved;  ///< accelerator: by the caching allocator, from the device
  std::optional<std::int64_t> inactive;  ///< accelerator: free parts of blocks that are in use,
                                         ///< which cannot be released: fragmentation
  std::optional<std::int64_t> retries;   ///< accelerator: allocations that emptied the cache first
};

namespace bridge {

template <class Allocator>
void add_free_of_device(MemoryFacts& facts, Allocator& allocator, c10::DeviceIndex index) {
  if constexpr (requires { allocator.getMemoryInfo(index); }) {
    try {
      const auto [free, total] = allocator.getMemoryInfo(index);
      facts.free = static_cast<std::int64_t>(free), facts.total = static_cast<std::int64_t>(total);
    } catch (const c10::Error&) {  // this allocator does not report it
    }
  }
}
/// Calls `f(allocator)` with the caching allocator of an accelerator, if LibTorch has one.
template <class Type, class F>
void with_device_allocator(Type type, const F& f) {
  if constexpr (has_device_statistics) {
    try {
      if (auto* allocator = device_allocator(type); allocator != nullptr) f(*allocator);
    } catch (const c10::Error&) {  // LibTorch has no allocator with statistics for this device
    }
  }
}

/// Reads the facts that are available. Costs some tens of microseconds, and waits for no device.
MemoryFacts memory_facts(c10::Device device);

/// Releases memory that is kept but not used: on the CPU the free memory of the process's heap, to
/// the system; on an accelerator the memory that LibTorch's caching allocator keeps, as
/// `torch.cuda.empty_cache` in Python. Takes milliseconds, waits for an accelerator, and makes the
/// allocations that follow slower, so do not call it in every step.
void release_cached_memory(c10::Device device);

}  // namespace bridge
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/memory_facts.ipp>
#endif
