#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/constant.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<ConstantLR>::check() const {
  detail::check_schedule("ConstantLR", values.factor >= 0 && values.total_iters >= 0,
                         "factor and total_iters must not be negative.");
}

IKEBANA_INLINE double Mechanism<ConstantLR>::rate(double base, std::int64_t step) const {
  return WarmupSchedule::rate(*this, base, step);
}

IKEBANA_INLINE double Mechanism<ConstantLR>::after_warmup(double base, double t) const {
  return t < static_cast<double>(values.total_iters) ? base * values.factor : base;
}

IKEBANA_INLINE std::string Mechanism<ConstantLR>::describe() const {
  return "factor=" + c10::str(values.factor) +
         ", total_iters=" + std::to_string(values.total_iters) +
         ", warmup_steps=" + std::to_string(values.warmup_steps);
}

}  // namespace ikebana
