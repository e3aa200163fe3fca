#pragma once
// Reads outputs and targets of a batch for metrics of regression.
#include <ikebana/detail/torch.hpp>
#include <ikebana/metrics/metric_sums.hpp>
#include <string>

namespace ikebana::detail {

/// Returns outputs - targets in Double. Throws BadBatch if they have different shapes, which
/// LibTorch would broadcast: (N, 1) and (N) to (N, N).
at::Tensor regression_errors(const std::string& metric, const at::Tensor& outputs,
                             const at::Tensor& target);

/// Returns the mean of a sum (0) and a count (1). Waits for the device. Throws Error if the count
/// is 0, NonFinite if the sum is NaN.
double mean_of_sums(const std::string& metric, const MetricSums& sums);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/metrics/impl/regression.ipp>
#endif
