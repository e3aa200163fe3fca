#pragma once
// Early stopping: ends a training whose validation does not get better any more.
#include <cmath>
#include <ikebana/fit/validation_rule.hpp>
#include <ikebana/state/archive.hpp>
#include <limits>
#include <optional>

namespace ikebana {

/// Ends `fit` after the epoch in which the validation's loss, or `metric`, has not improved by more
/// than `min_delta` for `patience` epochs in a row. With `check_finite`, also after an epoch in
/// which it is not finite; otherwise such a value is no improvement. A resumed training stops after
/// the same epoch. Names and rule are those of PyTorch Lightning's callback.
struct EarlyStopping {
  /// Whether the smallest or the largest value is the best.
  enum Mode {
    min,  ///< the lowest value is the best
    max   ///< the highest value is the best
  };
  std::string metric = {};        ///< empty: the loss
  std::optional<Mode> mode = {};  ///< which of a metric's values is the best; of the loss: min
  std::int64_t patience = 3;      ///< 1 or more
  double min_delta = 0;           ///< 0 or more
  bool check_finite = true;       ///< stop after a value that is not finite
};

/// What EarlyStopping counts, for a loop over epochs of your own: call `step` with the value of
/// each epoch. Its state is saved where it is passed to `save`, as any part.
class EarlyStopper {
 public:
  /// The section of its counts in a saved state.
  static constexpr const char* state_name = "early_stopping";

  /// Throws BadValue for a patience or a min_delta that is out of range.
  explicit EarlyStopper(EarlyStopping values) : values_(std::move(values)) {
    if (values_.patience < 1)
      throw BadValue("EarlyStopping: patience is " + std::to_string(values_.patience) +
                     "; it must be 1 or more: 1 stops after the first epoch without improvement.");
    if (!(values_.min_delta >= 0 && std::isfinite(values_.min_delta)))
      throw BadValue("EarlyStopping: min_delta is " + c10::str(values_.min_delta) +
                     "; it must be finite, and 0 or more.");
  }

  /// Takes the value of another epoch. Returns whether training is to stop.
  bool step(double value) {
    const double gain = detail::smallest_is_best(values_) ? best_ - value : value - best_;
    has_diverged_ = values_.check_finite && !std::isfinite(value);
    if (std::isfinite(value) && (std::isnan(best_) || gain > values_.min_delta))
      best_ = value, bad_epochs_ = 0;
    else ++bad_epochs_;
    return stops();
  }
  /// Whether training is to stop, after the last `step`.
  bool stops() const { return has_diverged_ || bad_epochs_ >= values_.patience; }
  /// The best value so far; NaN where there was none.
  double best() const { return best_; }
  /// Epochs since then.
  std::int64_t bad_epochs() const { return bad_epochs_; }

  /// A state without it, as of a training that had no early stopping, lets it begin anew.
  void state(Archive& archive) {
    if (!archive.saving() && archive.names().empty()) return reset(archive.loading());
    archive.number("best", best_), archive.number("bad_epochs", bad_epochs_, &count_range);
    archive.number("has_diverged", has_diverged_);
    archive.within("rule", [&] { archive_rule(archive); });
  }

 private:
  void reset(bool loading) {
    if (loading) *this = EarlyStopper(values_);
  }
  void archive_rule(Archive& archive) const {
    const std::string rule = detail::text_of_rule(values_);
    double is_rule = 1;
    if (archive.saving()) return archive.number(rule, is_rule);
    for (const std::string& saved : archive.names()) {
      archive.ignore(saved);
      if (saved != rule)
        archive.add_mismatch(saved, "was how early stopping judged, here it is `" + rule + "`");
    }
  }

  EarlyStopping values_;
  double best_ = std::numeric_limits<double>::quiet_NaN();
  std::int64_t bad_epochs_ = 0;
  bool has_diverged_ = false;
};

namespace detail {

/// Early stopping in `fit`, where it is asked for.
class FitStopper {
 public:
  FitStopper() = default;
  explicit FitStopper(const std::optional<EarlyStopping>& values) {
    if (values) rule_ = *values, stopper_.emplace(*values);
  }
  void end_epoch(const Epoch& epoch) {
    if (stopper_) stopper_->step(value_by(rule_, epoch));
  }
  bool stops() const { return stopper_ && stopper_->stops(); }
  void state(Archive& archive) {
    if (stopper_) stopper_->state(archive);
    else archive.ignore_section();
  }

 private:
  EarlyStopping rule_;
  std::optional<EarlyStopper> stopper_;
};

}  // namespace detail
}  // namespace ikebana
