#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/metrics/regression.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor regression_errors(const std::string& metric, const at::Tensor& outputs,
                                            const at::Tensor& target) {
  if (outputs.sizes() != target.sizes())
    throw BadBatch("metric `" + metric + "`: outputs of shape " + c10::str(outputs.sizes()) +
                   " and targets of shape " + c10::str(target.sizes()) +
                   " differ. Give both one shape, e.g. by squeeze(-1).");
  return outputs.detach().to(at::kDouble) - target.detach().to(at::kDouble);
}

IKEBANA_INLINE double mean_of_sums(const std::string& metric, const MetricSums& sums) {
  if (sums.empty() || sums.number(1) == 0)
    throw Error("metric `" + metric +
                "`: there was no target to compare with. Evaluate batches with targets.");
  if (const double sum = sums.number(0); !std::isnan(sum)) return sum / sums.number(1);
  throw NonFinite("metric `" + metric +
                  "`: an output or a target is NaN. Look for where the model computes NaN, and "
                  "leave targets that are missing out by an OutputTransform.");
}

}  // namespace ikebana::detail
