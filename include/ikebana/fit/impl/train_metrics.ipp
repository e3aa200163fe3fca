#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/evaluate/evaluate.hpp>
#include <ikebana/fit/train_metrics.hpp>
#include <ikebana/state/archive.hpp>

namespace ikebana::detail {

IKEBANA_INLINE TrainMetrics::TrainMetrics() = default;
IKEBANA_INLINE TrainMetrics::~TrainMetrics() = default;

IKEBANA_INLINE void TrainMetrics::begin(const std::vector<ErasedMetric>& given, std::int64_t rank,
                                        std::int64_t ranks, bool saves) {
  for (const ErasedMetric& metric : given) {
    const std::string of = "fit: train_metrics has `" + metric.name() + "`, which has no ";
    if (ranks > 1 && !metric.can_reduce())
      throw BadValue(of +
                     "`reduce(RankGroup&)`, so each rank would report a figure of its own. "
                     "Give it one that adds up what it has summed: total = ranks.sum(total).");
    if (saves && !metric.can_save())
      throw BadValue(of +
                     "`state(Archive&)`, so a training that resumes within an epoch would "
                     "lose what it has summed. Give it one that lists its tensors and "
                     "numbers: archive.number(\"total\", total).");
  }
  metrics_ = given, rank_ = rank, ranks_ = ranks;
  check_metric_names(names());
  begin_epoch();
}

IKEBANA_INLINE std::vector<std::string> TrainMetrics::names() const {
  std::vector<std::string> names;
  for (const ErasedMetric& metric : metrics_) names.push_back(metric.name());
  return names;
}

IKEBANA_INLINE void TrainMetrics::begin_epoch() {
  for (ErasedMetric& metric : metrics_) metric = metric.initial();
}

IKEBANA_INLINE void TrainMetrics::add(const void* batch, const at::Tensor& outputs) const {
  const at::NoGradGuard no_grad;
  for (const ErasedMetric& metric : metrics_) metric.update(batch, outputs);
}

IKEBANA_INLINE MetricValues TrainMetrics::values(RankGroup* all) const {
  MetricValues values;
  for (const ErasedMetric& metric : metrics_) {
    if (all != nullptr) metric.reduce(*all);
    for (auto& named : metric.values()) values.push_back(std::move(named));
  }
  check_value_names(values);
  return values;
}

inline void archive_metric(Archive& archive, const ErasedMetric& metric) {
  double is_there = 1;
  if (archive.checking() && !archive.has(metric.name()))
    return archive.add_mismatch(metric.name(),
                                "is missing: the state was saved within an epoch without this "
                                "train metric, whose value would be that of the rest alone");
  archive.number(metric.name(), is_there);
  metric.state(archive);
}

IKEBANA_INLINE void TrainMetrics::state(Archive& archive) {
  if (metrics_.empty()) return;
  archive.constant("ranks", ranks_);
  const std::string own = "rank" + std::to_string(rank_);
  for (const std::string& name : archive.names())
    if (name.starts_with("rank") && name != "ranks" && !name.starts_with(own + "."))
      archive.ignore(name);
  archive.within(own, [&] {
    for (const ErasedMetric& metric : metrics_) archive_metric(archive, metric);
  });
}

IKEBANA_INLINE void check_rows_of_group(const at::Tensor& outputs, std::int64_t rows) {
  if (outputs.dim() > 0 && outputs.size(0) == rows) return;
  throw BadModel(
      "fit: train_metrics with batches_per_step above 1 needs a row of Loss::outputs "
      "for each row of the batches, and these have " +
      std::to_string(rows) + " rows, their outputs the shape " + c10::str(outputs.sizes()) +
      ". Let the loss return the rows in dimension 0, or leave batches_per_step at 1: "
      "Accumulate<N> cuts one larger batch.");
}

}  // namespace ikebana::detail
