#pragma once
#include <ikebana/bridge/device.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/phases.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Observe<Phases>>::attach(c10::Device device, const UnitTable&) {
  clock_.emplace(bridge::with_index(device));
  reset();
}

IKEBANA_INLINE void Mechanism<Observe<Phases>>::reset() {
  if (values.warmup < 0 || values.keep < 1)
    throw BadValue("Observe<Phases>: warmup is " + std::to_string(values.warmup) + " and keep is " +
                   std::to_string(values.keep) +
                   ". Write how many steps are left out, 0 or more, and of how many the times are "
                   "kept, 1 or more.");
  clock_->each_arrived(/*waits=*/true, [](const PhaseSeconds&) {});  // they are of former steps
  recent_.reset(static_cast<std::size_t>(values.keep));
  left_out_ = 0;
}

IKEBANA_INLINE PhaseSummary Mechanism<Observe<Phases>>::summary() {
  add_arrived(/*waits=*/true);
  return detail::phase_summary(recent_.in_order(), left_out_);
}

IKEBANA_INLINE void Mechanism<Observe<Phases>>::add_arrived(bool waits) {
  clock_->each_arrived(waits, [&](const PhaseSeconds& times) { add(times); });
}

IKEBANA_INLINE void Mechanism<Observe<Phases>>::add(const PhaseSeconds& times) {
  if (left_out_ < values.warmup) ++left_out_;
  else recent_.add(times);
}

IKEBANA_INLINE std::string Mechanism<Observe<Phases>>::describe() const {
  return "warmup=" + std::to_string(values.warmup) + ", keep=" + std::to_string(values.keep);
}

}  // namespace ikebana
