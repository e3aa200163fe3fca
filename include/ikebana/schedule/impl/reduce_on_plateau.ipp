#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/schedule/reduce_on_plateau.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<ReduceLROnPlateau>::Mechanism(ReduceLROnPlateau v)
    : WarmupSchedule(std::move(v)), mode_(values.mode) {
  check_values(*this);
  best_ = values.mode == ReduceLROnPlateau::min ? infinity : -infinity;
}

IKEBANA_INLINE void Mechanism<ReduceLROnPlateau>::check() const {
  const char* name = "ReduceLROnPlateau";
  detail::check_schedule(name, values.factor >= 0 && values.factor < 1,
                         "factor must be at least 0 and less than 1.");
  detail::check_schedule(name,
                         values.patience >= 0 && values.cooldown >= 0 && values.threshold >= 0 &&
                             values.min_lr >= 0 && values.eps >= 0,
                         "patience, cooldown, threshold, min_lr and eps must not be negative.");
  detail::check_unchanged(values.mode == mode_, "ReduceLROnPlateau: mode");
}

IKEBANA_INLINE void Mechanism<ReduceLROnPlateau>::step(double metric) {
  check_values(*this);
  if (is_better(metric)) best_ = metric, bad_epochs_ = 0;
  else ++bad_epochs_;
  if (cooldown_left_ > 0) --cooldown_left_, bad_epochs_ = 0;
  if (bad_epochs_ <= values.patience) return;
  ++reductions_;
  cooldown_left_ = values.cooldown, bad_epochs_ = 0;
}

IKEBANA_INLINE double Mechanism<ReduceLROnPlateau>::rate(double base, std::int64_t step) const {
  return WarmupSchedule::rate(*this, reduced(base), step);
}

IKEBANA_INLINE std::string Mechanism<ReduceLROnPlateau>::describe() const {
  const auto& v = values;
  return std::string("mode=") + (v.mode == v.min ? "min" : "max") +
         ", factor=" + c10::str(v.factor) + ", patience=" + std::to_string(v.patience) +
         ", threshold=" + c10::str(v.threshold) + (v.threshold_mode == v.abs ? " abs" : "") +
         ", cooldown=" + std::to_string(v.cooldown) + ", min_lr=" + c10::str(v.min_lr) +
         (v.metric.empty() ? "" : ", metric=" + v.metric) +
         ", warmup_steps=" + std::to_string(v.warmup_steps);
}

IKEBANA_INLINE void Mechanism<ReduceLROnPlateau>::state(Archive& archive, const Masters&) {
  archive.number("best", best_, &ordered_range);
  archive.number("num_bad_epochs", bad_epochs_, &count_range);
  archive.number("cooldown_counter", cooldown_left_, &count_range);
  archive.number("reductions", reductions_, &count_range);
}

IKEBANA_INLINE bool Mechanism<ReduceLROnPlateau>::is_better(double metric) const {
  const double sign = values.mode == values.min ? -1 : 1;
  if (values.threshold_mode == values.abs)
    return sign * metric > sign * (best_ + sign * values.threshold);
  if (std::isinf(best_)) return sign * metric > sign * best_;  // infinity times 0 would be NaN
  const double outward = best_ < 0 ? -sign : sign;
  return sign * metric > sign * (best_ * (1 + outward * values.threshold));
}

IKEBANA_INLINE double Mechanism<ReduceLROnPlateau>::metric_of(const Epoch& epoch) const {
  if (!values.metric.empty() && epoch.validation) return (*epoch.validation)[values.metric];
  if (!values.metric.empty())
    throw BadValue("ReduceLROnPlateau: metric is `" + values.metric +
                   "`, which validation computes, and this epoch has none. Give fit .validate "
                   "and .metrics, or end_epoch the .validation; or leave .metric out.");
  const double loss = epoch.validation ? epoch.validation->loss : epoch.loss;
  if (!detail::is_given(loss))
    throw BadValue("ReduceLROnPlateau: the " +
                   std::string(epoch.validation ? "validation of the epoch" : "epoch") +
                   " that end_epoch was given has no loss. Write end_epoch({.epoch = epoch, "
                   ".loss = mean}) with the mean loss of its steps, or .validation = "
                   "trainer.evaluate(data).");
  return loss;
}

IKEBANA_INLINE double Mechanism<ReduceLROnPlateau>::reduced(double rate) const {
  for (std::int64_t i = 0; i < reductions_; ++i) {
    double next = std::max(rate * values.factor, values.min_lr);
    if (!(rate - next > values.eps)) break;
    rate = next;
  }
  return rate;
}

}  // namespace ikebana
