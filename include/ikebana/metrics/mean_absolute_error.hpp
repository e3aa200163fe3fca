#pragma once
// The mean absolute error of a regression.
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/metrics/regression.hpp>

namespace ikebana {

/// The mean of |output - target| over all elements; scikit-learn's `mean_absolute_error` with
/// `uniform_average`. Shapes: outputs and targets of one shape. State: a sum in Double and a count,
/// on the device. Cost: one pass in Double per batch, and no wait for the device.
struct MeanAbsoluteError {
  std::string name = "mae";      ///< its name in an Evaluation
  detail::MetricSums sums = {};  ///< what was summed so far

  /// Adds a batch. Throws BadBatch if outputs and targets differ in shape.
  template <class Batch>
  void update(const Batch& batch, const at::Tensor& outputs) {
    add(outputs, detail::MetricTarget<Batch>{}(batch));
  }
  /// Adds up over ranks, on the host.
  void reduce(RankGroup& ranks) { sums.reduce(name, ranks); }
  /// Returns the mean. Waits for the device. Throws Error without targets, NonFinite for NaN.
  double value() const { return detail::mean_of_sums(name, sums); }
  /// Saves, checks or loads what was summed.
  void state(Archive& archive) {
    sums.state(archive, {{"sum", at::kDouble, 0}, {"count", at::kLong, 0}});
  }

 private:
  void add(const at::Tensor& outputs, const at::Tensor& target);
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/metrics/impl/mean_absolute_error.ipp>
#endif
