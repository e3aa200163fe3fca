#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/metrics/confusion_matrix.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor confusion(const PredictedBatch& batch, std::int64_t classes) {
  const at::Tensor cell = batch.target.values * classes + batch.predicted;
  return occurrences(cell, batch.target.counted, classes * classes).reshape({classes, classes});
}

IKEBANA_INLINE at::Tensor normalized(const at::Tensor& counts, Normalize normalize) {
  switch (normalize) {
    case Normalize::Off:
      return counts;
    case Normalize::Target:
      return counts / counts.sum(1, /*keepdim=*/true);
    case Normalize::Prediction:
      return counts / counts.sum(0, /*keepdim=*/true);
    case Normalize::All:
      return counts / counts.sum();
  }
  throw BadValue("ConfusionMatrix: normalize is no value of Normalize. Give it Normalize::Target.");
}

IKEBANA_INLINE MetricValues cells_of(const at::Tensor& matrix) {
  MetricValues cells;
  for (std::int64_t i = 0; i < matrix.size(0); ++i)
    for (std::int64_t j = 0; j < matrix.size(1); ++j)
      cells.emplace_back(std::to_string(i) + "." + std::to_string(j), matrix[i][j].item<double>());
  return cells;
}

}  // namespace ikebana::detail
