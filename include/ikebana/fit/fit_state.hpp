#pragma once
// Where a training is, beside its trainer's own state.
#include <ikebana/fit/epoch.hpp>
#include <ikebana/state/archive.hpp>
#include <limits>

namespace ikebana::detail {

/// The position of `fit` and what it has found so far; no seconds, which no two runs share.
struct FitState {
  static constexpr const char* state_name = "fit";

  History history = {};    // whole epochs, and the one under way
  std::int64_t epoch = 0;  // whole ones
  std::int64_t batch = 0;  // batches of the present epoch that were trained on
  std::int64_t steps = 0;  // of the present epoch
  double loss_sum = 0;     // of these steps
  double best = std::numeric_limits<double>::quiet_NaN();
  std::int64_t batches_per_step = 1, batches = -1;  // -1: the loader knows where it is
  std::vector<std::string> metrics = {};

  void state(Archive& archive) {
    archive.constant("batches_per_step", batches_per_step);
    archive.constant("batches", batches);
    archive.number("epoch", epoch), archive.number("batch", batch);
    archive.number("steps", steps), archive.number("loss_sum", loss_sum);
    archive.number("best", best);
    if (archive.loading()) history.assign(static_cast<std::size_t>(epoch), Epoch{});
    archive.within("history", [&] { columns(archive); });
  }
  /// The epoch under way, which a resume may have begun.
  Epoch& present() {
    if (static_cast<std::int64_t>(history.size()) == epoch) history.emplace_back();
    history.back().epoch = epoch;
    history.back().steps = steps;
    if (steps > 0) history.back().loss = loss_sum / static_cast<double>(steps);
    return history.back();
  }
  void end_epoch() { ++epoch, batch = steps = 0, loss_sum = 0; }

 private:
  void columns(Archive& archive) {
    for (std::size_t e = 0; e < history.size(); ++e)
      history[e].epoch = static_cast<std::int64_t>(e);
    column(
        archive, "steps", [](Epoch& e) { return static_cast<double>(e.steps); },
        [](Epoch& e, double value) { e.steps = static_cast<std::int64_t>(value); });
    column(
        archive, "loss", [](Epoch& e) { return e.loss; },
        [](Epoch& e, double value) { e.loss = value; });
    column(
        archive, "validated", [](Epoch& e) { return e.validation ? 1.0 : 0.0; },
        [](Epoch& e, double value) {
          if (value != 0) e.validation.emplace();
        });
    validation(archive, "validation.loss", [](Evaluation& v) -> double& { return v.loss; });
    validation(archive, "validation.count", [](Evaluation& v) -> double& { return v.count; });
    for (const auto& name : metrics)
      if (const std::string full = "metrics." + name; archive.saving() || archive.has(full))
        validation(archive, full, [&](Evaluation& v) -> double& { return metric(v, name); });
  }
  /// One number of each whole epoch.
  template <class Get, class Set>
  void column(Archive& archive, const std::string& name, Get get, Set set) {
    std::vector<double> values;
    const auto whole = static_cast<std::size_t>(epoch);
    for (std::size_t e = 0; e < whole; ++e) values.push_back(get(history[e]));
    archive.list(name, values);
    if (!archive.loading()) return;
    for (std::size_t e = 0; e < std::min(values.size(), whole); ++e) set(history[e], values[e]);
  }
  template <class Of>
  void validation(Archive& archive, const std::string& name, Of of) {
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    column(
        archive, name, [&](Epoch& e) { return e.validation ? of(*e.validation) : none; },
        [&](Epoch& e, double value) {
          if (e.validation) of(*e.validation) = value;
        });
  }
  static double& metric(Evaluation& found, const std::string& name) {
    for (auto& [known, value] : found.metrics)
      if (known == name) return value;
    return found.metrics.emplace_back(name, std::numeric_limits<double>::quiet_NaN()).second;
  }
};

}  // namespace ikebana::detail
