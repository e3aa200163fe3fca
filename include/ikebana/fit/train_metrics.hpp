#pragma once
// The metrics of `FitOptions::train_metrics`, which see the batches that are trained on.
#include <ikebana/batch/empty.hpp>
#include <ikebana/core/placement.hpp>
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// The metrics over the steps of an epoch, on this rank. Each is a copy of the one that was given.
class TrainMetrics {
 public:
  TrainMetrics();
  ~TrainMetrics();
  TrainMetrics(const TrainMetrics&) = delete;
  TrainMetrics& operator=(const TrainMetrics&) = delete;

  /// Takes the metrics that were given. Throws BadValue for two of one name, for one that cannot
  /// be added up over `ranks` ranks, and, if `saves` is true, for one that cannot be saved: the
  /// first epoch would end, or the first save fail, after hours.
  void begin(const std::vector<ErasedMetric>& given, std::int64_t rank, std::int64_t ranks,
             bool saves);
  bool empty() const { return metrics_.empty(); }
  std::vector<std::string> names() const;
  /// Forgets all batches.
  void begin_epoch();
  /// Adds a batch of a step, which has the type that the metrics take, with its outputs.
  void add(const void* batch, const at::Tensor& outputs) const;
  /// Returns the numbers of all batches since `begin_epoch`. With `all`, which has several ranks,
  /// the batches of all ranks count, and no batch can be added until the next `begin_epoch`.
  MetricValues values(RankGroup* all) const;
  /// Saves, checks or loads what was summed within an epoch. Each rank has sums of its own, so a
  /// state that was saved within an epoch is loaded on as many ranks.
  void state(Archive& archive);

 private:
  std::vector<ErasedMetric> metrics_;
  std::int64_t rank_ = 0, ranks_ = 1;
};

/// Throws BadModel if the outputs of a step from several batches do not have a row for each of
/// theirs, so that it is not known which belong to which batch.
void check_rows_of_group(const at::Tensor& outputs, std::int64_t rows);

template <class Batch>
std::int64_t rows_or_none(const Batch& batch) {
  return has_no_rows(batch) ? 0 : rows(batch);
}

/// Gives a batch and its outputs to the metrics, on the device of the outputs.
template <class Batch>
void add_step(const TrainMetrics& metrics, const Batch& batch, const at::Tensor& outputs) {
  if (has_no_rows(batch)) return;  // other ranks have some
  if (!outputs.defined()) return metrics.add(std::addressof(batch), outputs);
  DeviceHooks device;
  LayoutHooks layout;
  Placement placement(outputs.device());
  const Batch placed = placement.place(device, layout, batch);
  metrics.add(std::addressof(placed), outputs);
}
/// Gives each of several batches its rows of the outputs.
template <class Batch>
void add_step(const TrainMetrics& metrics, const Microbatches<Batch>& batches,
              const at::Tensor& outputs) {
  std::int64_t all = 0, begin = 0;
  for (const Batch& batch : batches) all += rows_or_none(batch);
  if (outputs.defined()) check_rows_of_group(outputs, all);
  for (const Batch& batch : batches) {
    const std::int64_t count = rows_or_none(batch);
    add_step(metrics, batch, outputs.defined() ? outputs.narrow(0, begin, count) : outputs);
    begin += count;
  }
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/fit/impl/train_metrics.ipp>
#endif
