#pragma once
// The memory of a device as a text.
#include <ikebana/memory/scope.hpp>
#include <ikebana/observe/memory_report.hpp>
#include <map>

namespace ikebana {

namespace detail {

/// Counts since the first summary of the device.
template <class = void>
bridge::MemoryCounter memory_counter(c10::Device device) {
  static std::mutex mutex;
  static auto& counters = *new std::map<std::string, bridge::MemoryCounter>;
  const std::lock_guard lock(mutex);
  return counters.try_emplace(device.str(), device).first->second;
}

}  // namespace detail

/// Bytes in use by LibTorch on a device, their peak since the first call for that device or the
/// last reset, and what the device says of its memory, as a table for people. On the CPU, what was
/// allocated before the first MemoryCounter is not counted. Throws Error for a device whose memory
/// LibTorch does not count.
template <class = void>
std::string memory_summary(c10::Device device = at::kCPU) {
  device = bridge::with_index(device);
  const bridge::MemoryCounter counter = detail::memory_counter(device);
  const MemoryFacts facts = bridge::memory_facts(device);
  std::string text = "memory of " + device.str() + "\n" +
                     detail::bytes_row("allocated", counter.now()) + "\n" +
                     detail::bytes_row("peak", counter.peak()) + "\n";
  if (facts.reserved) text += detail::bytes_row("cached", *facts.reserved - counter.now()) + "\n";
  return text + detail::facts_rows(facts);
}
/// From now on, the peak of `memory_summary` is that of what follows.
template <class = void>
void reset_memory_peak(c10::Device device = at::kCPU) {
  detail::memory_counter(bridge::with_index(device)).reset_peak();
}

}  // namespace ikebana
