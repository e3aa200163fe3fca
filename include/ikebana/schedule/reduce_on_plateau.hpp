#pragma once
#include <ikebana/schedule/schedule.hpp>
#include <limits>

namespace ikebana {

/// Multiplies every rate by `factor` when a metric has not become better by `threshold` in more
/// than `patience` epochs; then waits `cooldown` epochs. No rate falls below `min_lr`, and none
/// falls by less than `eps`. `fit` feeds it after each epoch: the validation loss, or the
/// validation's metric named `metric`; where there is no validation, the mean loss of the epoch. In
/// a loop of your own: `trainer.mechanism<ReduceLROnPlateau>().step(metric)`. What it remembers is
/// saved and restored. Source: torch.optim.lr_scheduler.ReduceLROnPlateau.
struct ReduceLROnPlateau {
  enum Mode { min, max };
  enum ThresholdMode { rel, abs };

  Mode mode = min;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  ThresholdMode threshold_mode = rel;
  std::int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;
  std::string metric = {};  ///< empty: the loss
  std::int64_t warmup_steps = 0;
};

template <>
struct Mechanism<ReduceLROnPlateau> : detail::Warmed<ReduceLROnPlateau> {
  explicit Mechanism(ReduceLROnPlateau v) : Warmed(std::move(v)) {
    const char* name = "ReduceLROnPlateau";
    detail::check_schedule(name, values.factor >= 0 && values.factor < 1,
                           "factor must be at least 0 and less than 1.");
    detail::check_schedule(name,
                           values.patience >= 0 && values.cooldown >= 0 && values.threshold >= 0 &&
                               values.min_lr >= 0 && values.eps >= 0,
                           "patience, cooldown, threshold, min_lr and eps must not be negative.");
    best_ = values.mode == ReduceLROnPlateau::min ? infinity : -infinity;
  }

  /// What the metric is after another epoch; one that is not a number is no better than any.
  void step(double metric) {
    if (is_better(metric)) best_ = metric, bad_epochs_ = 0;
    else ++bad_epochs_;
    if (cooling_ > 0) --cooling_, bad_epochs_ = 0;
    if (bad_epochs_ <= values.patience) return;
    ++reductions_;
    cooling_ = values.cooldown, bad_epochs_ = 0;
  }
  /// How often rates were reduced.
  std::int64_t reductions() const { return reductions_; }

  void end_epoch(const Epoch& epoch) { step(metric_of(epoch)); }
  /// A warm-up climbs to the rate as it is reduced by then.
  double rate(double base, std::int64_t step) const {
    return Warmed::rate(*this, reduced(base), step);
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
    archive.number("best", best_), archive.number("num_bad_epochs", bad_epochs_);
    archive.number("cooldown_counter", cooling_), archive.number("reductions", reductions_);
  }

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  bool is_better(double metric) const {
    double sign = values.mode == values.min ? -1 : 1;
    if (values.threshold_mode == values.rel)
      return sign * metric > sign * (best_ * (1 + sign * values.threshold));
    return sign * metric > sign * (best_ + sign * values.threshold);
  }
  double metric_of(const Epoch& epoch) const {
    if (epoch.validation)
      return values.metric.empty() ? epoch.validation->loss : (*epoch.validation)[values.metric];
    if (values.metric.empty()) return epoch.loss;
    throw BadValue("ReduceLROnPlateau: the metric `" + values.metric +
                   "` is measured by validation, and this fit has none. Give fit .validate and "
                   ".metrics, or leave .metric out.");
  }
  /// Each reduction anew, so that groups keep their rates' ratio and may reach `min_lr` apart.
  double reduced(double rate) const {
    for (std::int64_t i = 0; i < reductions_; ++i) {
      double less = std::max(rate * values.factor, values.min_lr);
      if (!(rate - less > values.eps)) break;
      rate = less;
    }
    return rate;
  }

  double best_;
  std::int64_t bad_epochs_ = 0, cooling_ = 0, reductions_ = 0;
};

}  // namespace ikebana
