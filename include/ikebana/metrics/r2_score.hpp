#pragma once
// The coefficient of determination of a regression.
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/metrics/regression.hpp>

namespace ikebana {

/// The way in which the scores of several columns become one, as scikit-learn's `multioutput`.
enum class Multioutput {
  UniformAverage,   ///< the mean of the columns' scores
  VarianceWeighted  ///< the mean weighted by the variances of the columns' targets
};

/// 1 minus the squared errors divided by the squared deviations of the targets from their mean,
/// for each column of the targets; scikit-learn's `r2_score`. A column whose targets do not vary
/// (by 1e-14 of their mean) has no score: it is NaN where scikit-learn has 0 or 1, and the average
/// leaves it out. Shapes: outputs and targets of one shape, (N) or (N, ...), each element of a row
/// being a column. State: four numbers in Double per column, on the device, of which the deviations
/// are merged from batch to batch without cancellation. Cost: three passes in Double per batch, and
/// no wait for the device. Source: Chan, Golub and LeVeque, Updating formulae and a pairwise
/// algorithm for computing sample variances, 1979.
struct R2Score {
  std::string name = "r2";                                ///< its name in an Evaluation
  Multioutput multioutput = Multioutput::UniformAverage;  ///< how columns become one number
  bool per_output = false;       ///< adds the score of each column: `r2.0`, `r2.1`, ...
  detail::MetricSums sums = {};  ///< rows, and of each column mean, squared deviations and errors

  /// Adds a batch. Throws BadBatch if outputs and targets differ in shape.
  template <class Batch>
  void update(const Batch& batch, const at::Tensor& outputs) {
    add(outputs, detail::MetricTarget<Batch>{}(batch));
  }
  /// Merges the numbers of all ranks, on the host.
  void reduce(RankGroup& ranks);
  /// Returns the average score. Waits for the device. Throws Error without targets, NonFinite for
  /// NaN outputs or targets.
  double value() const;
  /// Returns the score of each column if `per_output` is set.
  MetricValues values() const;
  /// Saves, checks or loads the numbers. Throws BadState for one of other options.
  void state(Archive& archive) {
    detail::archive_options(archive, {{"multioutput",
                                       static_cast<double>(multioutput),
                                       {"UniformAverage", "VarianceWeighted"}}});
    sums.state(archive, {{"rows", at::kDouble, 0},
                         {"mean", at::kDouble, 1},
                         {"deviations", at::kDouble, 1},
                         {"errors", at::kDouble, 1}});
  }

 private:
  void add(const at::Tensor& outputs, const at::Tensor& target);
  std::vector<double> scores() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/metrics/impl/r2_score.ipp>
#endif
