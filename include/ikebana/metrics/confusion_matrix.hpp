#pragma once
// The confusion matrix: how often targets of each class are predicted to be of each class.
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/metrics/read_batch.hpp>

namespace ikebana {

/// The divisor of the cells of a ConfusionMatrix, as scikit-learn's `normalize`.
enum class Normalize {
  Off,         ///< none: cells are counts
  Target,      ///< the targets of a class (`true`): each row adds up to 1
  Prediction,  ///< the predictions of a class (`pred`): each column adds up to 1
  All          ///< all targets: the matrix adds up to 1
};

/// The number of targets of class i that are predicted to be of class j, for all i and j; the cells
/// are `confusion_matrix.i.j` in an Evaluation. A normalized cell of a class that does not occur is
/// NaN, where scikit-learn has 0. Task: Multiclass, or Binary, whose classes are 0 and 1. State:
/// C * C integers, on the device. Cost: one count per batch, and no wait for the device.
template <class Task>
struct ConfusionMatrix {
  static_assert(!std::is_same_v<Task, Multilabel>,
                "ikebana: a confusion matrix has one target per item. Write "
                "ConfusionMatrix<Binary> for one label, chosen by an OutputTransform.");

  std::string name = "confusion_matrix";  ///< the beginning of its names in an Evaluation
  Task task = {};                         ///< how outputs and targets are read
  Normalize normalize = Normalize::Off;   ///< what the cells are divided by
  std::int64_t ignore_index = -100;       ///< the value of targets that do not count
  detail::MetricSums sums = {};           ///< what was counted so far

  /// Counts a batch, in the shapes of its task. Throws BadBatch for other shapes, and on a CPU for
  /// impossible targets, NonFinite for NaN outputs; on a device `values` does.
  template <class Batch>
  void update(const Batch& batch, const at::Tensor& outputs) {
    count({name, outputs, detail::MetricTarget<Batch>{}(batch), ignore_index});
  }
  /// Adds up over ranks, on the host.
  void reduce(RankGroup& ranks) { sums.reduce(name, ranks); }
  /// Returns the matrix (C, C) on the host, in Double: rows are targets, columns predictions. Waits
  /// for the device. Throws Error without targets.
  at::Tensor matrix() const;
  /// Returns its cells, row by row, named `i.j`.
  MetricValues values() const;
  /// Saves, checks or loads what was counted. Throws BadState for one of other options.
  void state(Archive& archive) {
    detail::archive_options(
        archive, detail::task_options(task, {detail::option_of("ignore_index", ignore_index),
                                             {"normalize",
                                              static_cast<double>(normalize),
                                              {"Off", "Target", "Prediction", "All"}}}));
    sums.state(archive, {{"counts", at::kLong, 2}, {"faults", at::kLong, 1}});
  }

 private:
  void count(const detail::MetricInput& in);
};

namespace detail {
/// Returns a matrix of counts in Double, normalized.
at::Tensor normalized(const at::Tensor& counts, Normalize normalize);
/// Returns the counts (C, C) of one batch.
at::Tensor confusion(const PredictedBatch& batch, std::int64_t classes);
/// Names the cells of a matrix by their row and column.
MetricValues cells_of(const at::Tensor& matrix);
}  // namespace detail

template <class Task>
at::Tensor ConfusionMatrix<Task>::matrix() const {
  detail::Faults::check(name, sums, 1);
  if constexpr (std::is_same_v<Task, Binary>)
    detail::Faults::check_logits(name, sums[1], task.from_logits);
  return detail::normalized(sums.on_host(0), normalize);
}

template <class Task>
MetricValues ConfusionMatrix<Task>::values() const {
  return detail::cells_of(matrix());
}

template <class Task>
void ConfusionMatrix<Task>::count(const detail::MetricInput& in) {
  const auto batch = detail::read_predictions(in, task);
  const detail::Faults faults(batch);
  faults.check_now(name);
  const std::int64_t classes = std::is_same_v<Task, Binary> ? 2 : batch.classes;
  sums.add(name, {detail::confusion(batch, classes), faults.all()});
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/metrics/impl/confusion_matrix.ipp>
#endif
