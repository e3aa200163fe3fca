#pragma once
// The progress of `fit`, which is saved beside its trainer's own state.
#include <algorithm>
#include <ikebana/fit/early_stopping.hpp>
#include <ikebana/report.hpp>
#include <ikebana/state/archive.hpp>
#include <limits>

namespace ikebana::detail {

/// The position of `fit` and its history. Seconds are not saved: no two runs have the same.
struct FitState {
  static constexpr const char* state_name = "fit";

  History history = {};    // completed epochs, then the current one
  std::int64_t epoch = 0;  // completed epochs
  std::int64_t batch = 0;  // batches of the current epoch that were trained on
  std::int64_t steps = 0;  // of the current epoch
  double loss_sum = 0;     // over these steps
  double best = std::numeric_limits<double>::quiet_NaN();  // the value of the best saved state
  std::string best_rule =
      {};  // the rule that chooses it, such as `min.loss`; empty: no state is chosen
  std::int64_t batches_per_step = 1;
  std::int64_t batches = -1;  // per epoch, for a loader without a position of its own; else -1
  std::vector<std::string> metrics = {};
  FitStopper stopper = {};

  /// Adds the loss of a step. On a device the sum stays there, so that no step waits for it.
  void add(const Report& report);
  /// Reads the sum from the device. Throws NonFinite as Report::loss does.
  void read_losses();

  void state(Archive& archive);
  /// Updates the current epoch's entry in the history, and returns it.
  Epoch& current_epoch();
  void begin_next_epoch() { ++epoch, batch = steps = 0, loss_sum = 0, sum_on_device_.reset(); }

 private:
  /// Saves and loads the rule. A value that was the best by one rule is not compared by another. A
  /// run that chooses no best state keeps the rule.
  void archive_best_rule(Archive& archive);
  /// Returns the number of epochs whose history the state has. Lists of the history must have that
  /// length.
  std::int64_t saved_epochs(const Archive& archive) const;
  void archive_history(Archive& archive);
  /// Saves and loads one number per completed epoch.
  template <class Get, class Set>
  void archive_column(Archive& archive, const std::string& name, Get get, Set set,
                      const NumberRange* range = nullptr) {
    std::vector<double> values;
    const auto completed = static_cast<std::size_t>(epoch);
    values.reserve(completed);
    for (std::size_t e = 0; e < completed; ++e) values.push_back(get(history[e]));
    archive.list(name, values, saved_epochs_, range);
    if (!archive.loading()) return;
    for (std::size_t e = 0; e < std::min(values.size(), completed); ++e) set(history[e], values[e]);
  }
  /// Saves and loads a number of each epoch's validation; NaN for an epoch without validation.
  template <class Field>
  void archive_validation(Archive& archive, const std::string& name, Field field) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    archive_column(
        archive, name, [&](Epoch& e) { return e.validation ? field(*e.validation) : none; },
        [&](Epoch& e, double value) {
          if (e.validation) field(*e.validation) = value;
        });
  }
  static double& find_or_add_metric(Evaluation& evaluation, const std::string& name);

  at::Tensor sum_on_device_;  // loss_sum plus the losses since it was read
  bool must_be_finite_ = false;
  std::int64_t saved_epochs_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/fit_state.ipp>
#endif
