#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/fit/early_stopping.hpp>
#include <ikebana/fit/validation_rule.hpp>

namespace ikebana {

IKEBANA_INLINE EarlyStopper::EarlyStopper(EarlyStopping values) : values_(std::move(values)) {
  if (values_.patience < 1)
    throw BadValue("EarlyStopping: patience is " + std::to_string(values_.patience) +
                   "; it must be 1 or more: 1 stops after the first epoch without improvement.");
  if (!(values_.min_delta >= 0 && std::isfinite(values_.min_delta)))
    throw BadValue("EarlyStopping: min_delta is " + c10::str(values_.min_delta) +
                   "; it must be finite, and 0 or more.");
}

IKEBANA_INLINE bool EarlyStopper::step(double value) {
  const double gain = detail::smallest_is_best(values_) ? best_ - value : value - best_;
  has_diverged_ = values_.check_finite && !std::isfinite(value);
  if (std::isfinite(value) && (std::isnan(best_) || gain > values_.min_delta))
    best_ = value, bad_epochs_ = 0;
  else ++bad_epochs_;
  return stops();
}

IKEBANA_INLINE void EarlyStopper::state(Archive& archive) {
  if (!archive.saving() && archive.names().empty()) return reset(archive.loading());
  archive.number("best", best_), archive.number("bad_epochs", bad_epochs_, &count_range);
  archive.number("has_diverged", has_diverged_);
  archive.within("rule", [&] { archive_rule(archive); });
}

IKEBANA_INLINE void EarlyStopper::reset(bool loading) {
  if (loading) *this = EarlyStopper(values_);
}

IKEBANA_INLINE void EarlyStopper::archive_rule(Archive& archive) const {
  const std::string rule = detail::text_of_rule(values_);
  double is_rule = 1;
  if (archive.saving()) return archive.number(rule, is_rule);
  for (const std::string& saved : archive.names()) {
    archive.ignore(saved);
    if (saved != rule)
      archive.add_mismatch(saved, "was how early stopping judged, here it is `" + rule + "`");
  }
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE FitStopper::FitStopper(const std::optional<EarlyStopping>& values) {
  if (values) rule_ = *values, stopper_.emplace(*values);
}

IKEBANA_INLINE void FitStopper::add(const Evaluation& evaluation) {
  if (stopper_) stopper_->step(value_by(rule_, evaluation));
}

IKEBANA_INLINE void FitStopper::state(Archive& archive) {
  if (stopper_) stopper_->state(archive);
  else archive.ignore_section();
}

}  // namespace ikebana::detail
