#pragma once
// Reads outputs and targets of a batch for metrics of classification, without waiting for a device.
#include <ikebana/detail/torch.hpp>
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/metrics/metric_sums.hpp>
#include <ikebana/metrics/tasks.hpp>

namespace ikebana::detail {

/// The arguments of a metric's update, and the metric's name for errors.
struct MetricInput {
  const std::string& metric;
  const at::Tensor& outputs;
  const at::Tensor& target;
  std::int64_t ignore_index;
  const char* holder = "Multiclass";  // the struct with the field `dim`
};

/// Targets in rows. Ignored and wrong ones are 0, so that they can be used as indices.
struct ReadTarget {
  at::Tensor values;   // Long
  at::Tensor counted;  // Bool: neither ignored nor wrong
  at::Tensor wrong;    // a Long: how many are neither ignored nor possible
};
/// Reads class indices. Throws BadBatch if they are of a floating dtype.
ReadTarget read_classes(const MetricInput& in, std::int64_t classes);
/// Reads targets of 0 and 1, of any dtype.
ReadTarget read_zeros_and_ones(const MetricInput& in, const at::Tensor& target);

/// The scores of a batch: (n, C), or (n, L) for a task with labels.
struct ScoredBatch {
  at::Tensor scores;    // Float or Double
  ReadTarget target;    // (n), or (n, L)
  at::Tensor unlikely;  // a Long: how many counted rows or elements are no probabilities
  at::Tensor nan;       // a Long: how many counted ones are NaN
};
ScoredBatch read_scores(const MetricInput& in, const Binary& task);
ScoredBatch read_scores(const MetricInput& in, const Multiclass& task);
ScoredBatch read_scores(const MetricInput& in, const Multilabel& task);

/// The predictions of a batch: (n) classes, or (n, L) of 0 and 1.
struct PredictedBatch {
  at::Tensor predicted;  // Long
  ReadTarget target;     // with the same shape
  std::int64_t classes;  // or labels
  at::Tensor unlikely, nan;
};
PredictedBatch read_predictions(const MetricInput& in, const Binary& task);
PredictedBatch read_predictions(const MetricInput& in, const Multiclass& task);
PredictedBatch read_predictions(const MetricInput& in, const Multilabel& task);

/// Returns the task and its fields as options of a metric, followed by `others`.
std::vector<MetricOption> task_options(const Binary& task, std::vector<MetricOption> others);
std::vector<MetricOption> task_options(const Multiclass& task, std::vector<MetricOption> others);
std::vector<MetricOption> task_options(const Multilabel& task, std::vector<MetricOption> others);

/// Counts each index from 0 among the indices that are counted.
at::Tensor occurrences(const at::Tensor& index, const at::Tensor& counted, std::int64_t size);

/// The numbers by which a metric finds outputs and targets that make its value wrong. An update on
/// a CPU throws at once; on a device they are added up and checked when the value is read.
class Faults {
 public:
  template <class Batch>
  explicit Faults(const Batch& batch)
      : all_(at::stack(
            {batch.target.wrong, batch.nan, batch.unlikely, batch.target.counted.sum()})) {}
  const at::Tensor& all() const { return all_; }
  /// Throws BadBatch for wrong targets and NonFinite for NaN outputs, if `all` is on a CPU.
  void check_now(const std::string& metric) const;
  /// Throws these and Error if nothing was counted.
  static void check(const std::string& metric, const MetricSums& sums, std::size_t i);
  /// Returns whether so many outputs are as probabilities are that it is no accident.
  static bool are_probabilities(const at::Tensor& all);
  /// Throws Error if outputs are probabilities where logits are declared, or the other way round.
  static void check_logits(const std::string& metric, const at::Tensor& all, bool from_logits);

 private:
  at::Tensor all_;  // (4): wrong targets, NaN outputs, no probabilities, counted items
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/metrics/impl/read_batch.ipp>
#endif
