#pragma once
// The policy ReduceLROnPlateau and its mechanism.
#include <ikebana/schedule/schedule.hpp>
#include <limits>

namespace ikebana {

/// Multiplies every rate by `factor` when a metric has not improved by `threshold` for more than
/// `patience` epochs; then ignores `cooldown` epochs. No rate falls below `min_lr`, and reductions
/// by less than `eps` are not made. `fit` passes it a metric after each epoch: the validation loss,
/// or the validation's metric with the name `metric`; without validation, the mean loss of the
/// epoch. In your own loop, call `trainer.mechanism<ReduceLROnPlateau>().step(metric)`, or give
/// `end_epoch` an epoch with its loss or validation. Its state is saved and restored. Source:
/// torch.optim.lr_scheduler.ReduceLROnPlateau, but for a metric below 0: PyTorch's threshold in
/// mode `rel` is then negative, so that a metric that stays or gets worse counts as better.
struct ReduceLROnPlateau {
  /// Which of two metrics is better.
  enum Mode {
    min,  ///< the smaller one, as of a loss
    max   ///< the larger one, as of an accuracy
  };
  /// What the threshold is.
  enum ThresholdMode {
    rel,  ///< a fraction of the magnitude of the best metric
    abs   ///< a difference of metrics
  };

  Mode mode = min;                     ///< which metric is better
  double factor = 0.1;                 ///< of every rate at a reduction, in [0, 1)
  std::int64_t patience = 10;          ///< epochs without improvement that are allowed
  double threshold = 1e-4;             ///< a change must be larger to be an improvement
  ThresholdMode threshold_mode = rel;  ///< what `threshold` is relative to
  std::int64_t cooldown = 0;           ///< epochs after a reduction that are not counted
  double min_lr = 0;                   ///< no rate falls below it
  double eps = 1e-8;                   ///< smaller reductions are not made
  std::string metric = {};             ///< empty: the loss
  std::int64_t warmup_steps = 0;       ///< steps of a linear rise before it
};

template <std::same_as<ReduceLROnPlateau> Policy>
struct Mechanism<Policy> : detail::WarmupSchedule<ReduceLROnPlateau> {
  explicit Mechanism(ReduceLROnPlateau v) : WarmupSchedule(std::move(v)), mode_(values.mode) {
    check_values(*this);
    best_ = values.mode == ReduceLROnPlateau::min ? infinity : -infinity;
  }

  void check() const {
    const char* name = "ReduceLROnPlateau";
    detail::check_schedule(name, values.factor >= 0 && values.factor < 1,
                           "factor must be at least 0 and less than 1.");
    detail::check_schedule(name,
                           values.patience >= 0 && values.cooldown >= 0 && values.threshold >= 0 &&
                               values.min_lr >= 0 && values.eps >= 0,
                           "patience, cooldown, threshold, min_lr and eps must not be negative.");
    detail::check_unchanged(values.mode == mode_, "ReduceLROnPlateau: mode");
  }

  /// Takes the metric of another epoch. NaN is no improvement.
  void step(double metric) {
    check_values(*this);
    if (is_better(metric)) best_ = metric, bad_epochs_ = 0;
    else ++bad_epochs_;
    if (cooldown_left_ > 0) --cooldown_left_, bad_epochs_ = 0;
    if (bad_epochs_ <= values.patience) return;
    ++reductions_;
    cooldown_left_ = values.cooldown, bad_epochs_ = 0;
  }
  /// The number of reductions so far.
  std::int64_t reductions() const { return reductions_; }

  void end_epoch(const Epoch& epoch) { step(metric_of(epoch)); }
  /// A warm-up ends at the rate with the reductions that were made by then.
  double rate(double base, std::int64_t step) const {
    return WarmupSchedule::rate(*this, reduced(base), step);
  }
  double after_warmup(double base, double) const { return base; }

  std::string describe() const {
    const auto& v = values;
    return std::string("mode=") + (v.mode == v.min ? "min" : "max") +
           ", factor=" + c10::str(v.factor) + ", patience=" + std::to_string(v.patience) +
           ", threshold=" + c10::str(v.threshold) + (v.threshold_mode == v.abs ? " abs" : "") +
           ", cooldown=" + std::to_string(v.cooldown) + ", min_lr=" + c10::str(v.min_lr) +
           (v.metric.empty() ? "" : ", metric=" + v.metric) +
           ", warmup_steps=" + std::to_string(v.warmup_steps);
  }
  void state(Archive& archive, const Masters&) {
    archive.number("best", best_, &ordered_range);
    archive.number("num_bad_epochs", bad_epochs_, &count_range);
    archive.number("cooldown_counter", cooldown_left_, &count_range);
    archive.number("reductions", reductions_, &count_range);
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  bool is_better(double metric) const {
    const double sign = values.mode == values.min ? -1 : 1;
    if (values.threshold_mode == values.abs)
      return sign * metric > sign * (best_ + sign * values.threshold);
    if (std::isinf(best_)) return sign * metric > sign * best_;  // times 0 it would be NaN
    const double outward = best_ < 0 ? -sign : sign;
    return sign * metric > sign * (best_ * (1 + outward * values.threshold));
  }
  double metric_of(const Epoch& epoch) const {
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
  /// Repeats all reductions on a base rate, so that groups keep the ratio of their rates until one
  /// of them reaches `min_lr`.
  double reduced(double rate) const {
    for (std::int64_t i = 0; i < reductions_; ++i) {
      double next = std::max(rate * values.factor, values.min_lr);
      if (!(rate - next > values.eps)) break;
      rate = next;
    }
    return rate;
  }

  ReduceLROnPlateau::Mode mode_;  // when the trainer was made: `best_` is the best by it
  double best_;
  std::int64_t bad_epochs_ = 0, cooldown_left_ = 0, reductions_ = 0;
};

}  // namespace ikebana
