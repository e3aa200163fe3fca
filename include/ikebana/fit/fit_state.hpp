#pragma once
// Defines the progress of `fit`, which is saved beside its trainer's own state.
#include <algorithm>
#include <ikebana/fit/early_stopping.hpp>
#include <ikebana/fit/train_metrics.hpp>
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
  std::int64_t steps = 0;  // the number of steps of the current epoch
  double loss_sum = 0;     // the sum over these steps
  double best = std::numeric_limits<double>::quiet_NaN();  // the value of the best saved state
  std::string best_rule =
      {};  // the rule that chooses it, such as `min.loss`; empty: no state is chosen
  std::int64_t batches_per_step = 1;
  std::int64_t batches = -1;  // per epoch, for a loader without a position of its own; else -1
  std::vector<std::string> metrics = {};
  FitStopper stopper = {};
  TrainMetrics train_metrics = {};  // over the steps of the current epoch

  /// Returns the steps of all epochs.
  std::int64_t all_steps() const;
  /// Sets the last step of each completed epoch, which a saved state does not have. `made` steps
  /// were made before the next one.
  void number_epochs(std::int64_t made);
  /// Adds the loss of a step. On a device the sum stays there, so that no step waits for it.
  void add(const Report& report);
  /// Reads the sum from the device. Throws NonFinite as Report::loss does.
  void read_losses();

  void state(Archive& archive);
  /// Updates the current epoch's entry in the history, and returns it.
  Epoch& current_epoch();
  void begin_next_epoch();

 private:
  /// Saves and loads the rule. A value that was the best by one rule is not compared by another. A
  /// run that chooses no best state keeps the rule.
  void archive_best_rule(Archive& archive);
  void archive_history(Archive& archive);
  /// Saves and loads the validations by steps. A state without any has no entry for them.
  void archive_validations(Archive& archive);
  /// Saves and loads one number per completed epoch.
  template <class Get, class Set>
  void archive_column(Archive& archive, const std::string& name, Get get, Set set,
                      const NumberRange* range = nullptr) {
    std::vector<double> values;
    const auto completed = static_cast<std::size_t>(epoch);
    for (std::size_t e = 0; e < completed; ++e) values.push_back(get(history[e]));
    archive.list(name, values, saved_epochs_, range);
    if (!archive.loading()) return;
    for (std::size_t e = 0; e < std::min(values.size(), completed); ++e) set(history[e], values[e]);
  }
  /// Saves and loads a number of each epoch's validation, which is NaN for an epoch without
  /// validation.
  template <class Field>
  void archive_validation(Archive& archive, const std::string& name, Field field) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    archive_column(
        archive, name, [&](Epoch& e) { return e.validation ? field(*e.validation) : none; },
        [&](Epoch& e, double value) {
          if (e.validation) field(*e.validation) = value;
        });
  }
  /// Returns the names of the numbers of validations or of train metrics, which begin with
  /// `prefix`: in the history when saving, otherwise in the state. Numbers of metrics that this
  /// `fit` does not have are not loaded.
  std::vector<std::string> metric_names(
      const Archive& archive, const std::string& prefix, const std::vector<std::string>& given,
      c10::function_ref<const MetricValues*(const Epoch&)> values_of) const;
  static double& find_or_add(MetricValues& values, const std::string& name);
  static double find_or_not_given(const MetricValues& values, const std::string& name);

  at::Tensor sum_on_device_;  // loss_sum plus the losses since it was read
  bool must_be_finite_ = false;
  std::int64_t saved_epochs_ = 0;  // lists of the history must have that length
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/fit_state.ipp>
#endif
