#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/metrics/class_score.hpp>
#include <limits>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor class_counts(const PredictedBatch& batch, const Multiclass&) {
  const auto& [target, counted, wrong] = batch.target;
  const at::Tensor right = counted & (batch.predicted == target);
  return at::stack({occurrences(target, right, batch.classes),
                    occurrences(batch.predicted, counted, batch.classes),
                    occurrences(target, counted, batch.classes)});
}

IKEBANA_INLINE at::Tensor class_counts(const PredictedBatch& batch, const Multilabel&) {
  const at::Tensor counted = batch.target.counted.to(at::kLong);
  const at::Tensor predicted = batch.predicted * counted;  // wrong and ignored targets are 0
  return at::stack(
      {(predicted * batch.target.values).sum(0), predicted.sum(0), batch.target.values.sum(0)});
}

IKEBANA_INLINE at::Tensor class_counts(const PredictedBatch& batch, const Binary&) {
  return class_counts(batch, Multilabel{});
}

inline ClassCounts counts_of(const at::Tensor& counts) {
  return {counts[0].item<double>(), counts[1].item<double>(), counts[2].item<double>()};
}

IKEBANA_INLINE std::vector<double> scores_of_classes(const at::Tensor& counts,
                                                     RatioOfCounts ratio) {
  std::vector<double> scores;
  for (const at::Tensor& one : counts.unbind(1)) {
    const ClassCounts c = counts_of(one);
    scores.push_back(c.occurs() ? ratio(c) : std::numeric_limits<double>::quiet_NaN());
  }
  return scores;
}

IKEBANA_INLINE double average_of_classes(const at::Tensor& counts, Average average,
                                         RatioOfCounts ratio) {
  if (average == Average::Micro)
    return scores_of_classes(counts.sum(1, /*keepdim=*/true), ratio)[0];
  const std::vector<double> scores = scores_of_classes(counts, ratio);
  if (scores.size() == 1) return scores[0];
  double sum = 0, weights = 0;
  for (std::size_t c = 0; c < scores.size(); ++c) {
    if (std::isnan(scores[c])) continue;
    const double targets = counts[2][static_cast<std::int64_t>(c)].item<double>();
    const double weight = average == Average::Weighted ? targets : 1;
    sum += weight * scores[c], weights += weight;
  }
  return weights > 0 ? sum / weights : std::numeric_limits<double>::quiet_NaN();
}

IKEBANA_INLINE MetricValues by_index(const std::vector<double>& values) {
  MetricValues named;
  for (double value : values) named.emplace_back(std::to_string(named.size()), value);
  return named;
}

}  // namespace ikebana::detail
