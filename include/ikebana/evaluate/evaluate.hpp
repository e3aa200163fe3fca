#pragma once
// Evaluates a model: its loss and metrics over a data set.
#include <ikebana/core/around_step.hpp>
#include <ikebana/core/evaluation_mode.hpp>
#include <ikebana/core/placement.hpp>
#include <ikebana/evaluate/batch_parts.hpp>
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/evaluate/over_ranks.hpp>

namespace ikebana {

namespace detail {

/// Throws BadValue where two metrics have one name, by which their values are found.
template <class Metrics>
void check_metric_names(const Metrics& metrics) {
  for (std::size_t i = 0; i < metrics.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (metrics[i].name() == metrics[j].name())
        throw BadValue("evaluate: two metrics have the name `" + metrics[i].name() +
                       "`. Give each a name of its own.");
}

}  // namespace detail

namespace detail {

/// Evaluates one batch after the other.
template <class Core, class Batch>
class BatchEvaluation {
 public:
  using Metrics = std::vector<Metric<Batch>>;
  BatchEvaluation(Core& core, const Metrics& metrics)
      : core_(core), turns_(core.ranks()), run_(core, /*evaluating=*/true) {
    for (const auto& metric : metrics) metrics_.push_back(metric.initial());
  }
  void add(const Batch& batch) {
    Placement placement(core_.device);
    if constexpr (!Core::one_rank)
      if (may_have_no_rows(core_) && has_no_rows(batch)) return add_empty(batch);
    auto& m = core_.mechanisms;
    const Batch on_device = placement.place(m.device, m.layout, batch);
    rows(on_device);  // throws for an empty batch
    if constexpr (!Core::one_rank)
      if (turns_.needs_dummies() && !dummy_) dummy_.emplace(zero_row(on_device));
    PartLosses losses;
    fitted(&on_device, [&](const auto& parts, std::size_t count) {
      turns_.begin();
      losses.clear();
      for (const Batch& part : parts) losses.add(core_.loss(run_, part), !metrics_.empty());
      if constexpr (!Core::one_rank)
        if (turns_.needs_dummies()) add_dummies(count - std::size(parts));
    });
    losses.add_to(sums_);
    if (metrics_.empty()) return;
    const at::Tensor outputs = losses.outputs();
    for (const auto& metric : metrics_) metric.update(on_device, outputs);
  }
  /// There is no further batch.
  void end() {
    if constexpr (!Core::one_rank) {
      auto around = [&](const auto& f) {
        fitted(nullptr, [&](const auto&, std::size_t count) { f(count); });
      };
      turns_.end(sums_, core_.device, around, [&](std::size_t count) { add_dummies(count); });
    }
    if constexpr (Core::fits_memory) core_.mechanisms.accumulate.end_evaluation(core_);
  }
  Evaluation result() {
    auto ranks = core_.ranks();
    sums_.sum_over(ranks.data());
    if (!(sums_.count() > 0))
      throw BadBatch(
          "evaluate: the loader gave nothing to count. Give it at least one batch with a target.");
    Evaluation evaluation{sums_.mean(), sums_.count(), {}};
    for (const auto& metric : metrics_) {
      metric.reduce(ranks.data());
      evaluation.metrics.emplace_back(metric.name(), metric.value());
    }
    return evaluation;
  }

 private:
  void add_empty(const Batch& batch) {
    if (!turns_.needs_dummies()) return;
    if (!dummy_) dummy_.emplace(zero_row(core_.mechanisms.device.place(batch, core_.device)));
    fitted(nullptr, [&](const auto&, std::size_t count) {
      turns_.begin();
      add_dummies(count);
    });
  }
  /// Metrics see nothing of them.
  void add_dummies(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const DummyScope scope(core_, run_, /*is_dummy=*/true);
      sums_.add(core_.loss(run_, *dummy_));
    }
  }
  /// Calls `f(parts, count)`, where the recipe fits memory inside of what undoes it.
  template <class F>
  void fitted(const Batch* batch, const F& f) {
    core_.mechanisms.accumulate.around_evaluated(
        core_, batch, [&](const auto& parts, std::size_t count) {
          undo_.around(core_, turns_.needs_dummies(), [&] { f(parts, count); });
        });
  }

  Core& core_;
  BatchTurns<std::decay_t<decltype(std::declval<Core&>().ranks())>> turns_;
  Run<Core> run_;
  LossSums sums_;
  Metrics metrics_;
  std::optional<Batch> dummy_;
  [[no_unique_address]] UndoPart<Core> undo_;
};

template <class Core, class Visit, class Batch>
Evaluation evaluate_all(Core& core, const Visit& visit, const std::vector<Metric<Batch>>& metrics) {
  core.check_model();
  check_metric_names(metrics);
  const c10::InferenceMode no_inference(false);  // what a model keeps is used in later steps
  at::NoGradGuard no_grad;
  core.mechanisms.shard.open_step();
  EvaluationMode mode(*module_of(core.model));
  BatchEvaluation<Core, Batch> evaluation(core, metrics);
  core.around_evaluation([&] {
    visit([&](const Batch& batch) { evaluation.add(batch); });
    evaluation.end();
  });
  return evaluation.result();
}

}  // namespace detail

/// Evaluates each batch that `visit` passes to its argument, without cutting it into microbatches
/// unless Accumulate<Fit<>> has to, and with averaged weights if the recipe averages them. Waits
/// for the device at the end. Throws BadBatch if there is nothing to count. Several ranks evaluate
/// their own batches, and each returns the figures of all.
template <class Core, class Visit, class Metrics>
Evaluation evaluate(Core& core, const Visit& visit, const Metrics& metrics) {
  return detail::reported_to_ranks(core,
                                   [&] { return detail::evaluate_all(core, visit, metrics); });
}

}  // namespace ikebana
