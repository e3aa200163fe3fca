#pragma once
// Defines the policy WarmupStableDecayLR and its mechanism.
#include <ikebana/schedule/schedule.hpp>

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
  std::int64_t warmup_steps = 0;              ///< the number of steps of a linear rise
  std::int64_t stable_steps = 0;              ///< the number of steps with the base rate
  std::int64_t decay_steps = 0;               ///< the number of steps from the base rate to eta_min
  DecayForm decay = DecayForm::OneMinusSqrt;  ///< form of the descent
  double eta_min = 0;                         ///< the learning rate after it
};

namespace detail {

const char* name_of(DecayForm form);

}  // namespace detail

template <>
struct Mechanism<WarmupStableDecayLR> : detail::WarmupSchedule<WarmupStableDecayLR> {
  explicit Mechanism(WarmupStableDecayLR v) : WarmupSchedule(v) { check_values(*this); }

  void check() const;
  double rate(double base, std::int64_t step) const;
  double after_warmup(double base, double t) const;
  std::string describe() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/warmup_stable_decay.ipp>
#endif
