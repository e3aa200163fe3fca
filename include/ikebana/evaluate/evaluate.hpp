#pragma once
// Evaluates a model: computes its loss and metrics over a data set.
#include <ikebana/core/around_step.hpp>
#include <ikebana/core/evaluation_mode.hpp>
#include <ikebana/core/placement.hpp>
#include <ikebana/evaluate/batch_parts.hpp>
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/evaluate/over_ranks.hpp>

namespace ikebana {

namespace detail {

/// Throws BadValue if two metrics have the same name, because their values are found by name.
void check_metric_names(const std::vector<std::string>& names);
/// Throws BadValue if two numbers have the same name, such as `f1.0` of a metric `f1` and another
/// one that is called so.
void check_value_names(const MetricValues& values);

/// The results of an evaluation so far: sums of its losses, and its metrics.
class EvaluatedSoFar {
 public:
  explicit EvaluatedSoFar(EachMetric metrics);
  ~EvaluatedSoFar();
  EvaluatedSoFar(const EvaluatedSoFar&) = delete;
  EvaluatedSoFar& operator=(const EvaluatedSoFar&) = delete;
  bool has_metrics() const { return !metrics_.empty(); }
  LossSums& sums() { return sums_; }
  /// Adds a batch, which has the type that the metrics take.
  void add(const void* batch, const PartLosses& losses);
  /// Returns the result over all ranks. Null: there is one rank.
  Evaluation result(RankGroup* ranks);

 private:
  LossSums sums_;
  std::vector<ErasedMetric> metrics_;
};

/// Evaluates in evaluation mode, which begins after `open`, without gradients.
Evaluation in_evaluation_mode(torch::nn::Module& model, c10::function_ref<void()> open,
                              c10::function_ref<Evaluation()> evaluate);

/// Evaluates one batch after the other.
template <class Core, class Batch>
class BatchEvaluation {
 public:
  BatchEvaluation(Core& core, EachMetric metrics)
      : core_(core), turns_(core.ranks()), run_(core, /*evaluating=*/true), so_far_(metrics) {}
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
      for (const Batch& part : parts) losses.add(core_.loss(run_, part), so_far_.has_metrics());
      if constexpr (!Core::one_rank)
        if (turns_.needs_dummies()) add_dummies(count - std::size(parts));
    });
    so_far_.add(std::addressof(on_device), losses);
  }
  /// Ends the evaluation after the last batch.
  void end() {
    if constexpr (!Core::one_rank) {
      auto around = [&](const auto& f) {
        fitted(nullptr, [&](const auto&, std::size_t count) { f(count); });
      };
      turns_.end(so_far_.sums(), core_.device, around,
                 [&](std::size_t count) { add_dummies(count); });
    }
    if constexpr (Core::fits_memory) core_.mechanisms.accumulate.end_evaluation(core_);
  }
  Evaluation result() {
    if constexpr (Core::one_rank) {
      return so_far_.result(nullptr);
    } else {
      auto ranks = core_.ranks();
      return so_far_.result(&ranks.data());
    }
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
  /// Computes batches whose results are not counted. Metrics do not see them.
  void add_dummies(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const DummyScope scope(core_, run_, /*is_dummy=*/true);
      so_far_.sums().add(core_.loss(run_, *dummy_));
    }
  }
  /// Calls `f(parts, count)`. If the recipe fits memory, a call that throws is undone.
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
  EvaluatedSoFar so_far_;
  std::optional<Batch> dummy_;
  [[no_unique_address]] UndoPart<Core> undo_;
};

template <class Core, class Visit, class Batch>
Evaluation evaluate_all(Core& core, const Visit& visit, const std::vector<Metric<Batch>>& metrics) {
  core.check_model();
  check_metric_names(names_of(each_of(metrics)));
  auto& shard = core.mechanisms.shard;
  return in_evaluation_mode(
      *module_of(core.model), [&] { shard.open_step(); },
      [&] {
        BatchEvaluation<Core, Batch> evaluation(core, each_of(metrics));
        core.around_evaluation([&] {
          visit([&](const Batch& batch) { evaluation.add(batch); });
          evaluation.end();
        });
        return evaluation.result();
      });
}

}  // namespace detail

/// Evaluates each batch that `visit` passes to its argument, without cutting it into microbatches
/// unless Accumulate<Fit<>> has to, and with averaged weights if the recipe averages them. Waits
/// for the device at the end. Throws BadBatch if there is nothing to count. On several ranks each
/// evaluates its own batches, and returns the result of all.
template <class Core, class Visit, class Metrics>
Evaluation evaluate(Core& core, const Visit& visit, const Metrics& metrics) {
  return detail::reported_to_ranks(core,
                                   [&] { return detail::evaluate_all(core, visit, metrics); });
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/evaluate/impl/evaluate.ipp>
#endif
