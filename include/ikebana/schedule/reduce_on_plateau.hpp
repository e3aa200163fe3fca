#pragma once
// Defines the policy ReduceLROnPlateau and its mechanism.
#include <ikebana/schedule/schedule.hpp>
#include <limits>

namespace ikebana {

/// Multiplies every rate by `factor` when a metric has not improved by `threshold` for more than
/// `patience` epochs; then ignores `cooldown` epochs. No rate falls below `min_lr`, and reductions
/// by less than `eps` are not made. `fit` passes it a metric after each epoch: the validation loss,
/// or the validation's metric with the name `metric`; without validation, the mean loss of the
/// epoch. In your own loop, call `trainer.mechanism<ReduceLROnPlateau>().step(metric)`, or give
/// `end_epoch` an epoch with its loss or validation. Its state is saved and restored. Source:
/// torch.optim.lr_scheduler.ReduceLROnPlateau, which differs for a metric below 0: PyTorch's
/// threshold in mode `rel` is then negative, so a metric that stays the same or gets worse counts
/// as better.
struct ReduceLROnPlateau {
  /// The direction in which a metric improves.
  enum Mode {
    min,  ///< the smaller one, as of a loss
    max   ///< the larger one, as of an accuracy
  };
  /// The unit of the threshold.
  enum ThresholdMode {
    rel,  ///< a fraction of the magnitude of the best metric
    abs   ///< a difference of metrics
  };

  Mode mode = min;                     ///< says which metric is better
  double factor = 0.1;                 ///< the factor of every rate at a reduction, in [0, 1)
  std::int64_t patience = 10;          ///< epochs without improvement that are allowed
  double threshold = 1e-4;             ///< a change must be larger to be an improvement
  ThresholdMode threshold_mode = rel;  ///< says what `threshold` is relative to
  std::int64_t cooldown = 0;           ///< epochs after a reduction that are not counted
  double min_lr = 0;                   ///< no rate falls below it
  double eps = 1e-8;                   ///< smaller reductions are not made
  std::string metric = {};             ///< empty: the loss
  std::int64_t warmup_steps = 0;       ///< steps of a linear rise before it
};

template <>
struct Mechanism<ReduceLROnPlateau> : detail::WarmupSchedule<ReduceLROnPlateau> {
  explicit Mechanism(ReduceLROnPlateau v);

  void check() const;

  /// Takes the metric of the next epoch. NaN is no improvement.
  void step(double metric);
  /// Returns the number of reductions so far.
  std::int64_t reductions() const { return reductions_; }

  void end_epoch(const Epoch& epoch) { step(metric_of(epoch)); }
  /// Returns the rate of a step. A warm-up ends at the rate that includes the reductions made by
  /// then.
  double rate(double base, std::int64_t step) const;
  double after_warmup(double base, double) const { return base; }

  std::string describe() const;
  void state(Archive& archive, const Masters&);

 private:
  static constexpr double infinity = std::numeric_limits<double>::infinity();

  bool is_better(double metric) const;
  double metric_of(const Epoch& epoch) const;
  /// Repeats all reductions on a base rate, so that groups keep the ratio of their rates until one
  /// of them reaches `min_lr`.
  double reduced(double rate) const;

  ReduceLROnPlateau::Mode mode_;  // the mode by which `best_` was found
  double best_;
  std::int64_t bad_epochs_ = 0, cooldown_left_ = 0, reductions_ = 0;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/schedule/impl/reduce_on_plateau.ipp>
#endif
