#pragma once
#include <ikebana/average/swa.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

IKEBANA_INLINE std::string Mechanism<SWA>::describe() const {
  return "start_step=" + std::to_string(values.start_step) +
         ", every_steps=" + std::to_string(values.every_steps) +
         (values.use_buffers ? ", use_buffers" : "");
}

IKEBANA_INLINE void Mechanism<SWA>::state(Archive& archive, const Masters& masters) {
  archive.number("steps", steps_, &count_range);
  WeightAverage::state(archive, masters);
}

IKEBANA_INLINE void Mechanism<SWA>::check() const {
  if (values.start_step < 0 || values.every_steps < 1)
    throw BadValue("SWA: start_step is " + std::to_string(values.start_step) + " and every_steps " +
                   std::to_string(values.every_steps) +
                   "; start_step must not be negative, and every_steps 1 or more.");
  if (detail::recording())
    throw BadValue(
        "SWA: the host decides which steps are averaged, so a step with it cannot be recorded. "
        "Use EMA.");
}

IKEBANA_INLINE bool Mechanism<SWA>::is_due() const {
  if (detail::without_values()) return true;
  const std::int64_t since_start = steps_ + 1 - values.start_step;
  return since_start >= 0 && since_start % values.every_steps == 0;
}

}  // namespace ikebana
