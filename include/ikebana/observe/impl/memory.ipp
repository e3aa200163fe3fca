#pragma once
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/memory.hpp>
#include <ikebana/run/parameter_bytes.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Observe<Memory>>::attach(c10::Device device, const UnitTable& table) {
  counter_.emplace(device);
  uncounted_ = detail::uncounted_bytes(table);
  device_ = device, table_ = &table;
  check();
}

IKEBANA_INLINE void Mechanism<Observe<Memory>>::end_step(const StepGradients&,
                                                         Report& report) noexcept {
  report.peak_bytes = counter_->peak() + uncounted_;
}

IKEBANA_INLINE bool Mechanism<Observe<Memory>>::says_more() const {
  return values.by_phase || values.by_unit || values.free_below != 0 || values.clean_up;
}

IKEBANA_INLINE void Mechanism<Observe<Memory>>::check() const {
  if (values.free_below < 0)
    throw BadValue("Observe<Memory>: free_below is " + std::to_string(values.free_below) +
                   " bytes. Write how many should be free, or 0.");
  if (values.clean_up && values.free_below == 0)
    throw BadValue(
        "Observe<Memory>: clean_up is never called, since free_below is 0. Write below how many "
        "free bytes it is.");
  if (values.free_below == 0 || bridge::sources_of_thread != nullptr) return;
  const MemoryFacts facts = bridge::memory_facts(device_);
  if (facts.total && values.free_below > *facts.total)
    throw BadValue("Observe<Memory>: free_below is " + detail::bytes_text(values.free_below) +
                   ", and " + device_.str() + " has " + detail::bytes_text(*facts.total) +
                   " in all, so that every step would clean up. Write less.");
}

IKEBANA_INLINE std::optional<std::int64_t> Mechanism<Observe<Memory>>::clean_up_where_low() {
  if (values.free_below == 0 || bridge::sources_of_thread != nullptr) return {};
  const MemoryFacts before = bridge::memory_facts(device_);
  if (!before.free)
    throw BadValue("Observe<Memory>: free_below is set, and it is not known how much of " +
                   device_.str() + " is free. Leave it out.");
  if (*before.free >= values.free_below) return {};
  if (values.clean_up) values.clean_up();
  else bridge::release_cached_memory(device_);
  const MemoryFacts after = bridge::memory_facts(device_);
  return std::max<std::int64_t>(0, after.free.value_or(0) - *before.free);
}

}  // namespace ikebana
