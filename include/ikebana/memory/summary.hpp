#pragma once
// The memory of a device as a text.
#include <ikebana/bridge/memory.hpp>

namespace ikebana {

/// Bytes in use by LibTorch on a device, their peak since the first call for that device or the
/// last reset, and what the device says of its memory, as a table for people. On the CPU, what was
/// allocated before the first MemoryCounter is not counted. Throws Error for a device whose memory
/// LibTorch does not count.
std::string memory_summary(c10::Device device = at::kCPU);
/// From now on, the peak of `memory_summary` is that of what follows.
void reset_memory_peak(c10::Device device = at::kCPU);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/summary.ipp>
#endif
