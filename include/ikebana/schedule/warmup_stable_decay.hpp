#pragma once
// The policy WarmupStableDecayLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>
#include <numbers>

namespace ikebana {

/// The factor of WarmupStableDecayLR's decay, as a function of its completed part u in [0, 1].
enum class DecayForm {
  Linear,        ///< 1 - u
  OneMinusSqrt,  ///< 1 - sqrt(u)
  Cosine         ///< (1 + cos(pi u)) / 2
};

/// Warm-up, then the base rate for `stable_steps`, then a decay to `eta_min` (a rate, as in
/// CosineAnnealingLR) in `decay_steps` steps, and then `eta_min`. `decay_steps` has no default. A
/// state saved before the decay can be trained further with more stable steps. Sources:
/// Hu et al. (MiniCPM), arXiv:2404.06395; Haegele et al., arXiv:2405.18392, who found 1 - sqrt the
/// best form.
struct WarmupStableDecayLR {
  std::int64_t warmup_steps = 0;              ///< of a linear rise
  std::int64_t stable_steps = 0;              ///< with the base rate
  std::int64_t decay_steps = 0;               ///< from the base rate to eta_min
  DecayForm decay = DecayForm::OneMinusSqrt;  ///< form of the descent
  double eta_min = 0;                         ///< the learning rate after it
};

namespace detail {

inline double decay_factor(DecayForm form, double u) {
  if (form == DecayForm::Linear) return 1 - u;
  if (form == DecayForm::OneMinusSqrt) return 1 - std::sqrt(u);
  return (1 + std::cos(std::numbers::pi * u)) / 2;
}
inline const char* name_of(DecayForm form) {
  return form == DecayForm::Linear         ? "linear"
         : form == DecayForm::OneMinusSqrt ? "1-sqrt"
                                           : "cosine";
}

}  // namespace detail

template <std::same_as<WarmupStableDecayLR> Policy>
struct Mechanism<Policy> : detail::WarmupSchedule<WarmupStableDecayLR> {
  explicit Mechanism(WarmupStableDecayLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const {
    const char* name = "WarmupStableDecayLR";
    detail::check_schedule(
        name, values.decay_steps > 0,
        "decay_steps is not given. Write WarmupStableDecayLR{.stable_steps = steps, .decay_steps = "
        "steps}.");
    detail::check_schedule(name, values.stable_steps >= 0 && values.eta_min >= 0,
                           "stable_steps and eta_min must not be negative.");
  }
  double rate(double base, std::int64_t step) const {
    return WarmupSchedule::rate(*this, base, step);
  }
  double after_warmup(double base, double t) const {
    double decayed = t - static_cast<double>(values.stable_steps);
    if (decayed <= 0) return base;
    double u = std::min(decayed / static_cast<double>(values.decay_steps), 1.0);
    return values.eta_min + (base - values.eta_min) * detail::decay_factor(values.decay, u);
  }
  std::string describe() const {
    return "warmup_steps=" + std::to_string(values.warmup_steps) +
           ", stable_steps=" + std::to_string(values.stable_steps) +
           ", decay_steps=" + std::to_string(values.decay_steps) +
           ", decay=" + detail::name_of(values.decay) + ", eta_min=" + c10::str(values.eta_min);
  }
};

}  // namespace ikebana
