#pragma once
// The memory of a device as a text.
#include <ikebana/bridge/memory_counter.hpp>

namespace ikebana {

/// Returns a table for people: the bytes in use by LibTorch on a device, their peak since the first
/// call for that device or the last reset, and the device's own facts about its memory. On the CPU,
/// memory allocated before the first MemoryCounter is not counted. Throws Error for a device whose
/// memory LibTorch does not count.
std::string memory_summary(c10::Device device = at::kCPU);
/// Begins the peak of `memory_summary` again from the bytes in use now.
void reset_memory_peak(c10::Device device = at::kCPU);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/summary.ipp>
#endif
