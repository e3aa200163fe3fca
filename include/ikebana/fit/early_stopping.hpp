#pragma once
// Early stopping: ends a training whose validation no longer improves.
#include <ikebana/report.hpp>
#include <ikebana/state/archive.hpp>
#include <limits>
#include <optional>

namespace ikebana {

/// Ends `fit` after the epoch in which the validation's loss, or `metric`, has not improved by more
/// than `min_delta` for `patience` epochs in a row. With `check_finite`, also after an epoch in
/// which it is not finite; otherwise such a value is no improvement. With `validate_every` the rule
/// counts validations instead of epochs, and ends `fit` after the step. A resumed training stops
/// after the same epoch or step. It has the names and the rule of PyTorch Lightning's callback.
struct EarlyStopping {
  /// Chooses whether the smallest or the largest value is the best.
  enum Mode {
    min,  ///< the lowest value is the best
    max   ///< the highest value is the best
  };
  std::string metric = {};        ///< empty: the loss
  std::optional<Mode> mode = {};  ///< best value of a metric; for the loss: min
  std::int64_t patience = 3;      ///< 1 or more
  double min_delta = 0;           ///< 0 or more
  bool check_finite = true;       ///< stop after a value that is not finite
};

/// Counts as EarlyStopping does, for your own loop over epochs: call `step` with the value of each
/// epoch. Its state is saved if it is passed to `save`, as any part.
class EarlyStopper {
 public:
  /// The section of its counts in a saved state.
  static constexpr const char* state_name = "early_stopping";

  /// Throws BadValue for a patience or a min_delta that is out of range.
  explicit EarlyStopper(EarlyStopping values);

  /// Takes the value of another epoch. Returns whether training is to stop.
  bool step(double value);
  /// Returns whether training is to stop, after the last `step`.
  bool stops() const { return has_diverged_ || bad_epochs_ >= values_.patience; }
  /// Returns the best value so far, or NaN before the first.
  double best() const { return best_; }
  /// Returns the number of epochs since the best value.
  std::int64_t bad_epochs() const { return bad_epochs_; }

  /// Saves and loads the counts. Loading a state without them, from a training without early
  /// stopping, resets the counts.
  void state(Archive& archive);

 private:
  void reset(bool loading);
  void archive_rule(Archive& archive) const;

  EarlyStopping values_;
  double best_ = std::numeric_limits<double>::quiet_NaN();
  std::int64_t bad_epochs_ = 0;
  bool has_diverged_ = false;
};

namespace detail {

/// Early stopping in `fit`, if the options ask for it.
class FitStopper {
 public:
  FitStopper() = default;
  explicit FitStopper(const std::optional<EarlyStopping>& values);
  void add(const Evaluation& evaluation);
  bool stops() const { return stopper_ && stopper_->stops(); }
  void state(Archive& archive);

 private:
  EarlyStopping rule_;
  std::optional<EarlyStopper> stopper_;
};

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/early_stopping.ipp>
#endif
