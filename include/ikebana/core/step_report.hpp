#pragma once
// The report of a step: it is gathered while the step is made.
#include <chrono>
#include <ikebana/core/step_state.hpp>
#include <ikebana/core/totals.hpp>
#include <ikebana/hooks/step_rate.hpp>
#include <vector>

namespace ikebana::detail {

/// Makes the report of a step that begins now.
class StepReport {
 public:
  /// Keeps the outputs of a microbatch, detached.
  void add_outputs(Loss& loss);
  /// Returns the report, but without its time. Does not wait for anything.
  template <class Optimizer, class Rate>
  Report make(const StepState& state, Totals& totals, const Optimizer& optimizer,
              const Rate& rate) const {
    Report report = without_rates(state, totals);
    report.learning_rate = rate(optimizer.base_lr());
    each_rate(optimizer, rate, [&](double lr) { report.learning_rates.push_back(lr); });
    return report;
  }
  void stop_clock(Report& report) const noexcept {
    report.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;

  Report without_rates(const StepState& state, Totals& totals) const;
  at::Tensor joined_outputs() const;

  Clock::time_point begin_ = Clock::now();
  std::vector<at::Tensor> outputs_;  // the outputs of all microbatches, in row order
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/core/impl/step_report.ipp>
#endif
