#pragma once
// The items under a curve over all thresholds: each item's score and target on the host, or counts
// of scores in bins on the device.
#include <ikebana/metrics/read_batch.hpp>

namespace ikebana::detail {

/// The numbers of positive and of negative items that reach each threshold, from the highest
/// threshold to the lowest, in Double on the host.
struct CurvePoints {
  at::Tensor positives, negatives;
};

/// The scores and targets of a metric over thresholds. A column is a class or a label.
class CurveItems {
 public:
  /// Adds a batch. `thresholds` 0 keeps every item; otherwise there are so many bins.
  void add(const std::string& metric, ScoredBatch batch, std::int64_t thresholds);
  /// Throws as Faults do.
  void check(const std::string& metric, bool from_logits) const;
  std::int64_t columns() const;
  CurvePoints points(std::int64_t column) const;
  void reduce(const std::string& metric, RankGroup& ranks);
  void state(Archive& archive, bool has_bins, std::int64_t target_dim);

 private:
  void keep(const std::string& metric, const ScoredBatch& batch);
  /// Makes one tensor of all batches, for scores and for targets.
  void join();
  bool has_bins() const { return sums_.all().size() > 1; }

  std::vector<at::Tensor> scores_, targets_;  // (n, C) and (n) classes or (n, C), -1: not counted
  MetricSums sums_;                           // faults; with bins also (2, C, bins) of counts
};

/// Returns scores whose order is that of probabilities: of a class the log of the softmax, which
/// does not become 1 for many, of a label the logits. With bins: the probabilities.
ScoredBatch curve_scores(const MetricInput& in, const Binary& task, bool has_bins);
ScoredBatch curve_scores(const MetricInput& in, const Multiclass& task, bool has_bins);
ScoredBatch curve_scores(const MetricInput& in, const Multilabel& task, bool has_bins);

/// Returns the area under true over false positives, or NaN if items of one kind are missing.
double area_under_roc(const CurvePoints& points);
/// Returns the average precision, or NaN without a positive item.
double average_precision(const CurvePoints& points);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/metrics/impl/curve_items.ipp>
#endif
