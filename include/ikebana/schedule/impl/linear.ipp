#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/linear.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<LinearLR>::check() const {
  detail::check_schedule("LinearLR", values.total_iters > 0,
                         "total_iters is not given. Write LinearLR{.total_iters = steps}.");
  detail::check_schedule("LinearLR", values.start_factor >= 0 && values.end_factor >= 0,
                         "start_factor and end_factor must not be negative.");
}

IKEBANA_INLINE double Mechanism<LinearLR>::rate(double base, std::int64_t step) const {
  return WarmupSchedule::rate(*this, base, step);
}

IKEBANA_INLINE double Mechanism<LinearLR>::after_warmup(double base, double t) const {
  double n = static_cast<double>(values.total_iters);
  return base *
         (values.start_factor + (values.end_factor - values.start_factor) * std::min(t, n) / n);
}

IKEBANA_INLINE std::string Mechanism<LinearLR>::describe() const {
  return "start_factor=" + c10::str(values.start_factor) +
         ", end_factor=" + c10::str(values.end_factor) +
         ", total_iters=" + std::to_string(values.total_iters) +
         ", warmup_steps=" + std::to_string(values.warmup_steps);
}

}  // namespace ikebana
