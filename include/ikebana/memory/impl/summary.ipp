#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/memory/scope.hpp>
#include <ikebana/memory/summary.hpp>
#include <ikebana/observe/memory_report.hpp>
#include <map>

namespace ikebana::detail {

/// Returns the counter of the device, made for its first summary.
inline bridge::MemoryCounter memory_counter(c10::Device device) {
  static std::mutex mutex;
  static auto& counters = *new std::map<std::string, bridge::MemoryCounter>;
  const std::lock_guard lock(mutex);
  return counters.try_emplace(device.str(), device).first->second;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::string memory_summary(c10::Device device) {
  device = bridge::with_index(device);
  const bridge::MemoryCounter counter = detail::memory_counter(device);
  const MemoryFacts facts = bridge::memory_facts(device);
  std::string text = "memory of " + device.str() + "\n" +
                     detail::bytes_row("allocated", counter.now()) + "\n" +
                     detail::bytes_row("peak", counter.peak()) + "\n";
  if (facts.reserved) text += detail::bytes_row("cached", *facts.reserved - counter.now()) + "\n";
  return text + detail::facts_rows(facts);
}

IKEBANA_INLINE void reset_memory_peak(c10::Device device) {
  detail::memory_counter(bridge::with_index(device)).reset_peak();
}

}  // namespace ikebana
