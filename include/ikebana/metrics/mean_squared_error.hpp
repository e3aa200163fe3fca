#pragma once
// The mean squared error of a regression, and its root.
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/metrics/regression.hpp>

namespace ikebana {

/// The mean of (output - target)^2 over all elements; scikit-learn's `mean_squared_error` with
/// `uniform_average`. With `.squared = false` the root of that mean, which is torchmetrics' RMSE;
/// scikit-learn's `root_mean_squared_error` of several columns averages the columns' roots instead.
/// Shapes: outputs and targets of one shape. State: a sum in Double and a count, on the device.
/// Cost: one pass in Double per batch, and no wait for the device.
struct MeanSquaredError {
  bool squared = true;                          ///< false: the root of the mean
  std::string name = squared ? "mse" : "rmse";  ///< its name in an Evaluation
  detail::MetricSums sums = {};                 ///< what was summed so far

  /// Adds a batch. Throws BadBatch if outputs and targets differ in shape.
  template <class Batch>
  void update(const Batch& batch, const at::Tensor& outputs) {
    add(outputs, detail::MetricTarget<Batch>{}(batch));
  }
  /// Adds up over ranks, on the host.
  void reduce(RankGroup& ranks) { sums.reduce(name, ranks); }
  /// Returns the mean, or its root. Waits for the device. Throws Error without targets, NonFinite
  /// for NaN.
  double value() const;
  /// Saves, checks or loads what was summed. Throws BadState for one of other options.
  void state(Archive& archive) {
    detail::archive_options(archive, {{"squared", double(squared)}});
    sums.state(archive, {{"sum", at::kDouble, 0}, {"count", at::kLong, 0}});
  }

 private:
  void add(const at::Tensor& outputs, const at::Tensor& target);
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/metrics/impl/mean_squared_error.ipp>
#endif
