#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/cyclic.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<CyclicLR>::check() const {
  const auto& v = values;
  const char* name = "CyclicLR";
  detail::check_schedule(name, v.max_lr > 0,
                         "max_lr is not given, or not positive. Write CyclicLR{.base_lr = 1e-3, "
                         ".max_lr = 1e-2}.");
  detail::check_schedule(name, !v.base_lr || *v.base_lr >= 0, "base_lr must not be negative.");
  detail::check_schedule(name, v.step_size_up > 0 && v.step_size_down.value_or(0) >= 0,
                         "step_size_up must be 1 or more, step_size_down 0 or more.");
  detail::check_schedule(name, v.gamma >= 0, "gamma must not be negative.");
  check_momentum();
}

IKEBANA_INLINE double Mechanism<CyclicLR>::rate(double base, std::int64_t step) const {
  return CyclingSchedule::rate(*this, base, step);
}

IKEBANA_INLINE double Mechanism<CyclicLR>::momentum(double base, std::int64_t step) const {
  return CyclingSchedule::momentum(*this, base, step);
}

IKEBANA_INLINE double Mechanism<CyclicLR>::after_warmup(double base, double t) const {
  const double low = values.base_lr.value_or(base);
  return low + (values.max_lr - low) * height(t) * scale(t);
}

IKEBANA_INLINE double Mechanism<CyclicLR>::momentum_after_warmup(double t) const {
  const double high = values.max_momentum;
  return high - (high - values.base_momentum) * height(t) * scale(t);
}

IKEBANA_INLINE const char* Mechanism<CyclicLR>::own_rate() const {
  return "Give all of them one lr, or write a LambdaLR, which multiplies the lr of each.";
}

IKEBANA_INLINE std::string Mechanism<CyclicLR>::describe() const {
  const auto& v = values;
  const char* modes[] = {"triangular", "triangular2", "exp_range"};
  return (v.base_lr ? "base_lr=" + c10::str(*v.base_lr) + ", " : "") +
         "max_lr=" + c10::str(v.max_lr) + ", step_size_up=" + std::to_string(v.step_size_up) +
         ", step_size_down=" + c10::str(down()) +
         ", mode=" + (v.scale_fn ? "scale_fn" : modes[v.mode]) +
         (v.mode == v.exp_range ? ", gamma=" + c10::str(v.gamma) : "") +
         (v.scale_fn && v.scale_mode == v.iterations ? ", scale_mode=iterations" : "") +
         (v.cycle_momentum
              ? ", momentum=" + c10::str(v.base_momentum) + " to " + c10::str(v.max_momentum)
              : "") +
         ", warmup_steps=" + std::to_string(v.warmup_steps);
}

IKEBANA_INLINE double Mechanism<CyclicLR>::down() const {
  return static_cast<double>(values.step_size_down.value_or(values.step_size_up));
}

IKEBANA_INLINE double Mechanism<CyclicLR>::height(double t) const {
  const double part = 1 + t / length() - cycle_of(t);
  const double top = static_cast<double>(values.step_size_up) / length();
  return part <= top ? part / top : (part - 1) / (top - 1);
}

IKEBANA_INLINE double Mechanism<CyclicLR>::scale(double t) const {
  const auto& v = values;
  if (v.scale_fn) return v.scale_fn(v.scale_mode == v.cycle ? cycle_of(t) : t);
  if (v.mode == v.triangular2) return 1 / std::pow(2, cycle_of(t) - 1);
  return v.mode == v.exp_range ? std::pow(v.gamma, t) : 1;
}

}  // namespace ikebana
