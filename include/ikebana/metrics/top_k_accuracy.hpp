#pragma once
// Top-k accuracy: whether the target is among the k classes with the largest outputs.
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/metrics/read_batch.hpp>

namespace ikebana {

/// The fraction of targets that are among the classes with the `k` largest outputs. Of equal
/// outputs the first class is the larger one, so k = 1 is Accuracy. Shapes: as for Multiclass.
/// State: a few integers, on the device. Cost: two comparisons of all outputs per batch, and no
/// wait for the device. Counterpart: scikit-learn's `top_k_accuracy_score`, which lets the last of
/// equal outputs be the larger one.
struct TopKAccuracy {
  std::int64_t k = 5;  ///< how many classes; fewer than the outputs have
  std::string name = "top_" + std::to_string(k) + "_accuracy";  ///< its name in an Evaluation
  std::int64_t ignore_index = -100;      ///< the value of targets that do not count
  std::optional<std::int64_t> dim = {};  ///< the dimension of the classes, as in Multiclass
  detail::MetricSums sums = {};          ///< what was counted so far

  /// Counts a batch. Throws BadBatch for shapes that do not fit, and on a CPU for impossible
  /// targets, NonFinite for NaN outputs; on a device `value` does. Throws BadValue for a `k` of no
  /// class, or of all classes, for which the value would always be 1.
  template <class Batch>
  void update(const Batch& batch, const at::Tensor& outputs) {
    count({name, outputs, detail::MetricTarget<Batch>{}(batch), ignore_index, "TopKAccuracy"});
  }
  /// Adds up over ranks, on the host.
  void reduce(RankGroup& ranks) { sums.reduce(name, ranks); }
  /// Returns the fraction. Waits for the device. Throws Error without targets.
  double value() const;
  /// Saves, checks or loads what was counted. Throws BadState for one of other options.
  void state(Archive& archive) {
    detail::archive_options(
        archive, {detail::option_of("k", k), detail::option_of("ignore_index", ignore_index),
                  detail::option_of("dim", dim)});
    sums.state(archive, {{"correct", at::kLong, 0}, {"faults", at::kLong, 1}});
  }

 private:
  void count(const detail::MetricInput& in);
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/metrics/impl/top_k_accuracy.ipp>
#endif
