#pragma once
// What a device says of its memory, beyond the bytes in use; and the release of what is
// cached.
#include <ikebana/bridge/version.hpp>
#include <ikebana/error.hpp>

namespace ikebana {

/// Bytes of one device. What a device or a version of LibTorch does not say has no value.
struct MemoryFacts {
  std::optional<std::int64_t> free;   ///< that can be allocated: of the machine, or of the device
  std::optional<std::int64_t> total;  ///< of the machine or its control group, or of the device
  std::optional<std::int64_t> resident;  ///< CPU: of this process, in pages
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
    } catch (const c10::Error&) {  // this allocator does not say
    }
  }
}
/// Calls `f(allocator)` with the caching allocator of an accelerator, if LibTorch has one.
template <class Type, class F>
void with_device_allocator(Type type, const F& f) {
  if constexpr (has_device_statistics) {
    try {
      if (auto* allocator = device_allocator(type); allocator != nullptr) f(*allocator);
    } catch (const c10::Error&) {  // LibTorch has none with statistics
    }
  }
}

/// Reads what there is. Costs some tens of microseconds, and waits for no device.
MemoryFacts memory_facts(c10::Device device);

/// Releases memory that is free and kept: to the system, what the heap of this process keeps; of an
/// accelerator, what LibTorch's caching allocator does, as `torch.cuda.empty_cache` in Python.
/// Takes milliseconds, an accelerator's waits for the device, and allocations that follow are
/// slower, so it is nothing for every step.
void release_cached_memory(c10::Device device);

}  // namespace bridge
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/memory_facts.ipp>
#endif
