#pragma once
// AUROC and average precision: how well scores separate a class from the rest, over all thresholds.
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/metrics/class_score.hpp>
#include <ikebana/metrics/curve_items.hpp>

namespace ikebana {

namespace detail {

struct ROCArea {
  static constexpr const char* name = "auroc";
  static double of(const CurvePoints& points) { return area_under_roc(points); }
};
struct PrecisionArea {
  static constexpr const char* name = "average_precision";
  static double of(const CurvePoints& points) { return average_precision(points); }
};
/// Returns the mean of the values that are not NaN, or NaN if all are.
double mean_of_defined(const std::vector<double>& values);

}  // namespace detail

/// A metric over all thresholds: `AUROC` and `AveragePrecision`. Its value is the mean over classes
/// (each against the rest) or labels; a class without a positive or, for AUROC, a negative target
/// has none and is left out. The value is NaN if no class has one. State: every item, on the host,
/// of 5 bytes (Binary), 5 per label (Multilabel), or 4 per class and 4 (Multiclass), more by 4 per
/// score if outputs are Double; with `thresholds` two integers per class and threshold, on the
/// device. Cost: the exact form copies each batch to the host, which waits for the device, and
/// sorts all items when the value is read. On several ranks each gets the items of all.
template <class Area, class Task>
struct CurveMetric {
  std::string name = Area::name;  ///< its name in an Evaluation
  Task task = {};                 ///< how outputs and targets are read; no threshold is used
  /// 0: the exact value. n: the value of probabilities that are rounded down to a multiple of
  /// 1 / (n - 1), as torchmetrics' `thresholds`, in constant memory and without waiting.
  std::int64_t thresholds = 0;
  bool per_class = false;            ///< adds the value of each class: `auroc.0`, `auroc.1`, ...
  std::int64_t ignore_index = -100;  ///< the value of targets that do not count
  detail::CurveItems items = {};     ///< the items so far

  /// Adds a batch, in the shapes of its task. Throws BadBatch for other shapes, and on a CPU for
  /// impossible targets, NonFinite for NaN outputs; on a device `value` does.
  template <class Batch>
  void update(const Batch& batch, const at::Tensor& outputs) {
    const detail::MetricInput in{name, outputs, detail::MetricTarget<Batch>{}(batch), ignore_index};
    items.add(name, detail::curve_scores(in, task, thresholds > 0), thresholds);
  }
  /// Gathers the items of all ranks, or adds up the counts of bins.
  void reduce(RankGroup& ranks) { items.reduce(name, ranks); }
  /// Returns the mean. Waits for the device. Throws Error without targets.
  double value() const { return detail::mean_of_defined(of_classes()); }
  /// Returns the value of each class or label if `per_class` is set, NaN for one without.
  MetricValues values() const {
    return per_class ? detail::by_index(of_classes()) : MetricValues();
  }
  /// Saves, checks or loads the items. Throws BadState for one of other options.
  void state(Archive& archive) {
    detail::archive_options(
        archive, detail::task_options(task, {detail::option_of("ignore_index", ignore_index),
                                             detail::option_of("thresholds", thresholds)}));
    items.state(archive, thresholds > 0, std::is_same_v<Task, Multiclass> ? 1 : 2);
  }

 private:
  std::vector<double> of_classes() const {
    items.check(name, task.from_logits);
    std::vector<double> all;
    for (std::int64_t c = 0; c < items.columns(); ++c) all.push_back(Area::of(items.points(c)));
    return all;
  }
};

/// The area under the curve of true over false positive rates: the probability that a positive item
/// has a larger score than a negative one, where ties count half; scikit-learn's `roc_auc_score`.
template <class Task>
using AUROC = CurveMetric<detail::ROCArea, Task>;
/// The mean precision over the positive items, each at its own threshold; scikit-learn's
/// `average_precision_score`.
template <class Task>
using AveragePrecision = CurveMetric<detail::PrecisionArea, Task>;

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/metrics/impl/curve_metric.ipp>
#endif
