#pragma once
// How far `fit` has come, beside its trainer's own state.
#include <algorithm>
#include <cmath>
#include <ikebana/bridge/copy_stream.hpp>
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
  std::string best_rule = {};  // how it is chosen, such as `min.loss`; empty: it is not
  std::int64_t batches_per_step = 1;
  std::int64_t batches = -1;  // per epoch, for a loader without a position of its own; else -1
  std::vector<std::string> metrics = {};
  FitStopper stopper = {};

  /// Adds the loss of a step. On a device the sum stays there, so that no step waits for it.
  void add(const Report& report) {
    ++steps;
    if (!bridge::has_copy_streams(report.value.parts[0].sum.device())) {
      loss_sum += report.loss();
      return;
    }
    const at::Tensor loss = report.mean().to(at::kDouble);
    if (!sum_on_device_.defined()) sum_on_device_ = scalar(loss_sum, at::kDouble, loss.device());
    sum_on_device_ = sum_on_device_ + loss;
    must_be_finite_ = report.must_be_finite;
  }
  /// Reads the sum from the device. Throws NonFinite as Report::loss does.
  void read_losses() {
    if (!sum_on_device_.defined()) return;
    loss_sum = number(sum_on_device_);
    if (must_be_finite_ && !std::isfinite(loss_sum))
      throw NonFinite(
          "fit: the loss of the last steps is not finite; these made no update. Lower the learning "
          "rate or check the batches.");
  }

  void state(Archive& archive) {
    read_losses();
    archive.constant("batches_per_step", batches_per_step);
    archive.constant("batches", batches);
    const NumberRange of_epoch{0, batches < 0 ? count_range.max : static_cast<double>(batches),
                               true, "a number of batches of an epoch"};
    saved_epochs_ = saved_epochs(archive);
    archive.number("epoch", epoch, &count_range), archive.number("batch", batch, &of_epoch);
    archive.number("steps", steps, &count_range), archive.number("loss_sum", loss_sum);
    archive.number("best", best);
    archive.within("best_rule", [&] { archive_best_rule(archive); });
    archive.within("early_stopping", [&] { stopper.state(archive); });
    if (archive.loading()) sum_on_device_.reset();
    if (archive.loading()) history = {std::vector<Epoch>(static_cast<std::size_t>(epoch))};
    archive.within("history", [&] { archive_history(archive); });
  }
  /// The current epoch's entry in the history, brought up to date.
  Epoch& current_epoch() {
    read_losses();
    if (static_cast<std::int64_t>(history.size()) == epoch) history.emplace_back();
    history.back().epoch = epoch;
    history.back().steps = steps;
    if (steps > 0) history.back().loss = loss_sum / static_cast<double>(steps);
    return history.back();
  }
  void begin_next_epoch() { ++epoch, batch = steps = 0, loss_sum = 0, sum_on_device_.reset(); }

 private:
  /// A value that was the best by one rule is not compared by another. The rule is kept by a run
  /// that chooses no best state.
  void archive_best_rule(Archive& archive) {
    double is_rule = 1;
    if (archive.saving() && !best_rule.empty()) return archive.number(best_rule, is_rule);
    for (const std::string& saved : archive.names()) {
      archive.ignore(saved);
      if (archive.loading() && best_rule.empty()) best_rule = saved;
      if (!best_rule.empty() && saved != best_rule)
        archive.add_mismatch(saved, "was how keep_best chose, here it is `" + best_rule + "`");
    }
  }
  /// Epochs whose history the state has. Lists of the history must have that length.
  std::int64_t saved_epochs(const Archive& archive) const {
    const at::Tensor* saved = archive.find_like("epoch", at::scalar_tensor(0, at::kLong));
    return saved && !archive.saving() ? saved->item<std::int64_t>() : epoch;
  }
  void archive_history(Archive& archive) {
    for (std::size_t e = 0; e < history.size(); ++e)
      history[e].epoch = static_cast<std::int64_t>(e);
    archive_column(
        archive, "steps", [](Epoch& e) { return static_cast<double>(e.steps); },
        [](Epoch& e, double value) { e.steps = static_cast<std::int64_t>(value); }, &count_range);
    archive_column(
        archive, "loss", [](Epoch& e) { return e.loss; },
        [](Epoch& e, double value) { e.loss = value; });
    archive_column(
        archive, "validated", [](Epoch& e) { return e.validation ? 1.0 : 0.0; },
        [](Epoch& e, double value) {
          if (value != 0) e.validation.emplace();
        });
    archive_validation(archive, "validation.loss", [](Evaluation& v) -> double& { return v.loss; });
    archive_validation(archive, "validation.count",
                       [](Evaluation& v) -> double& { return v.count; });
    for (const auto& name : metrics)
      if (const std::string full = "metrics." + name; archive.saving() || archive.has(full))
        archive_validation(archive, full,
                           [&](Evaluation& v) -> double& { return find_or_add_metric(v, name); });
  }
  /// One number per completed epoch.
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
  /// A number of each epoch's validation; NaN for an epoch without validation.
  template <class Field>
  void archive_validation(Archive& archive, const std::string& name, Field field) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    archive_column(
        archive, name, [&](Epoch& e) { return e.validation ? field(*e.validation) : none; },
        [&](Epoch& e, double value) {
          if (e.validation) field(*e.validation) = value;
        });
  }
  static double& find_or_add_metric(Evaluation& evaluation, const std::string& name) {
    for (auto& [known, value] : evaluation.metrics)
      if (known == name) return value;
    return evaluation.metrics.emplace_back(name, std::numeric_limits<double>::quiet_NaN()).second;
  }

  at::Tensor sum_on_device_;  // loss_sum and the losses since it was read
  bool must_be_finite_ = false;
  std::int64_t saved_epochs_ = 0;
};

}  // namespace ikebana::detail
