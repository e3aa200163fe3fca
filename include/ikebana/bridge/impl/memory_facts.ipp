#pragma once
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/memory_facts.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/machine_memory.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE MemoryFacts memory_facts(c10::Device device) {
  MemoryFacts facts;
  device = with_index(device);
  if (device.is_cpu()) {
    const auto machine = ikebana::detail::machine_memory();
    if (machine)
      facts.free = machine->free, facts.total = machine->total, facts.resident = machine->resident;
    return facts;
  }
  with_device_allocator(device.type(), [&](auto& allocator) {
    if (!allocator.initialized()) return;
    const auto stats = allocator.getDeviceStats(device.index());
    facts.reserved = stats.reserved_bytes[0].current;
    facts.inactive = stats.inactive_split_bytes[0].current;
    facts.retries = stats.num_alloc_retries;
    add_free_of_device(facts, allocator, device.index());
  });
  return facts;
}

IKEBANA_INLINE void release_cached_memory(c10::Device device) {
  if (device.is_cpu()) return ikebana::detail::trim_heap();
  with_device_allocator(device.type(), [](auto& allocator) {
    if (allocator.initialized()) allocator.emptyCache();
  });
}

}  // namespace ikebana::bridge
