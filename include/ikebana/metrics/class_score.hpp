#pragma once
// Precision, recall, F1 and intersection over union: ratios of what a classifier predicts and of
// what is right, for each class and averaged.
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/metrics/read_batch.hpp>

namespace ikebana {

/// The way in which the scores of classes or labels become one number. With Binary all are the
/// same.
enum class Average {
  Micro,    ///< the score of all counts added up
  Macro,    ///< the mean over the classes that occur in targets or predictions
  Weighted  ///< the mean weighted by how many targets are of each class; NaN without one
};

namespace detail {

/// Counts of one class. As in scikit-learn and torchmetrics, a ratio whose divisor is 0 is 0, if
/// the class occurs in targets or predictions. If it does not, it has no score.
struct ClassCounts {
  double right, predicted, targets;
  bool occurs() const { return predicted + targets > 0; }
};
struct PrecisionRatio {
  static constexpr const char* name = "precision";
  static double of(const ClassCounts& c) { return c.predicted > 0 ? c.right / c.predicted : 0; }
};
struct RecallRatio {
  static constexpr const char* name = "recall";
  static double of(const ClassCounts& c) { return c.targets > 0 ? c.right / c.targets : 0; }
};
struct F1Ratio {
  static constexpr const char* name = "f1";
  static double of(const ClassCounts& c) { return 2 * c.right / (c.predicted + c.targets); }
};
struct IoURatio {
  static constexpr const char* name = "mean_iou";
  static double of(const ClassCounts& c) { return c.right / (c.predicted + c.targets - c.right); }
};

/// Returns (3, C): how often each class is right, predicted, and a target.
at::Tensor class_counts(const PredictedBatch& batch, const Multiclass&);
/// Returns this for labels, of which each is a class against the rest.
at::Tensor class_counts(const PredictedBatch& batch, const Binary&);
at::Tensor class_counts(const PredictedBatch& batch, const Multilabel&);

using RatioOfCounts = c10::function_ref<double(const ClassCounts&)>;
/// Returns the score of each class, or NaN for a class that does not occur. `counts` is (3, C).
std::vector<double> scores_of_classes(const at::Tensor& counts, RatioOfCounts ratio);
double average_of_classes(const at::Tensor& counts, Average average, RatioOfCounts ratio);
/// Names numbers by their index.
MetricValues by_index(const std::vector<double>& values);

template <class Task>
inline constexpr bool has_threshold = requires(Task task) { task.threshold; };

}  // namespace detail

/// A ratio of counts of each class, averaged: `PrecisionScore`, `RecallScore`, `F1Score` and
/// `MeanIoU`. State: three integers per class, on the device. Cost: one comparison and three counts
/// per batch, and no wait for the device. Its value is NaN if no class occurs.
template <class Ratio, class Task>
struct ClassScore {
  std::string name = Ratio::name;    ///< its name in an Evaluation
  Task task = {};                    ///< how outputs and targets are read
  Average average = Average::Macro;  ///< how one number is made of the classes'
  bool per_class = false;            ///< adds the score of each class: `f1.0`, `f1.1`, ...
  std::int64_t ignore_index = -100;  ///< the value of targets that do not count
  detail::MetricSums sums = {};      ///< what was counted so far

  /// Counts a batch, in the shapes of its task. Throws BadBatch for other shapes, and on a CPU for
  /// impossible targets, NonFinite for NaN outputs; on a device `value` does.
  template <class Batch>
  void update(const Batch& batch, const at::Tensor& outputs) {
    count({name, outputs, detail::MetricTarget<Batch>{}(batch), ignore_index});
  }
  /// Adds up over ranks, on the host.
  void reduce(RankGroup& ranks) { sums.reduce(name, ranks); }
  /// Returns the average. Waits for the device. Throws Error without targets.
  double value() const {
    check();
    return detail::average_of_classes(sums.on_host(0), average, Ratio::of);
  }
  /// Returns the score of each class if `per_class` is set. It is NaN for a class that does not
  /// occur in targets or predictions.
  MetricValues values() const {
    if (!per_class) return {};
    check();
    return detail::by_index(detail::scores_of_classes(sums.on_host(0), Ratio::of));
  }
  /// Saves, checks or loads what was counted. Throws BadState for one of other options.
  void state(Archive& archive) {
    detail::archive_options(
        archive,
        detail::task_options(
            task, {detail::option_of("ignore_index", ignore_index),
                   {"average", static_cast<double>(average), {"Micro", "Macro", "Weighted"}}}));
    sums.state(archive, {{"counts", at::kLong, 2}, {"faults", at::kLong, 1}});
  }

 private:
  void count(const detail::MetricInput& in) {
    const auto batch = detail::read_predictions(in, task);
    const detail::Faults faults(batch);
    faults.check_now(name);
    sums.add(name, {detail::class_counts(batch, task), faults.all()});
  }
  void check() const {
    detail::Faults::check(name, sums, 1);
    if constexpr (detail::has_threshold<Task>)
      detail::Faults::check_logits(name, sums[1], task.from_logits);
  }
};

/// The fraction of what is predicted to be of a class that is of it; scikit-learn's
/// `precision_score`, torchmetrics' `Precision`. `Precision` is a policy here.
template <class Task>
using PrecisionScore = ClassScore<detail::PrecisionRatio, Task>;
/// The fraction of the targets of a class that are predicted to be of it; scikit-learn's
/// `recall_score`.
template <class Task>
using RecallScore = ClassScore<detail::RecallRatio, Task>;
/// The harmonic mean of precision and recall; scikit-learn's `f1_score`.
template <class Task>
using F1Score = ClassScore<detail::F1Ratio, Task>;
/// The intersection of predicted and true pixels over their union, as for segmentation;
/// scikit-learn's `jaccard_score`, torchmetrics' `JaccardIndex`. The mean leaves out classes that
/// occur neither in predictions nor in targets, as both do.
template <class Task>
using MeanIoU = ClassScore<detail::IoURatio, Task>;

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/metrics/impl/class_score.ipp>
#endif
