#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/metrics/class_score.hpp>
#include <ikebana/metrics/r2_score.hpp>
#include <limits>

namespace ikebana {

IKEBANA_INLINE void R2Score::add(const at::Tensor& outputs, const at::Tensor& target) {
  const at::Tensor all_errors = detail::regression_errors(name, outputs, target);
  if (target.dim() == 0)
    throw BadBatch("metric `" + name +
                   "`: the targets have no dimension of rows. Give it targets of shape (N) or "
                   "(N, columns).");
  const std::int64_t rows = target.size(0);
  if (target.numel() == 0) return;
  const at::Tensor y = target.to(at::kDouble).reshape({rows, -1});
  const at::Tensor n = at::scalar_tensor(rows, y.options()), mean = y.mean(0);
  const at::Tensor deviations = (y - mean).square().sum(0);
  const at::Tensor errors = all_errors.reshape({rows, -1}).square().sum(0);
  if (sums.empty()) return sums.set({n, mean, deviations, errors});
  const std::vector<at::Tensor> before = sums.all();
  const at::Tensor all = n + before[0].to(y.device());
  if (before[1].sizes() != mean.sizes()) return sums.add(name, {n, mean, deviations, errors});
  const at::Tensor moved = mean - before[1].to(y.device()), part = n / all;
  sums.set({all, before[1].to(y.device()) + moved * part,
            before[2].to(y.device()) + deviations + moved.square() * (n - n * part),
            before[3].to(y.device()) + errors});
}

IKEBANA_INLINE void R2Score::reduce(RankGroup& ranks) {
  std::vector<at::Tensor> own = sums.all(), first, second;
  for (at::Tensor& t : own) t = t.to(at::kCPU);
  if (!own.empty()) first = {own[0], own[0] * own[1]};
  first = detail::sum_over(ranks, name, std::move(first));
  if (first.empty()) return;  // on all ranks
  const at::Tensor mean = first[1] / first[0];
  if (!own.empty()) second = {own[2] + own[0] * (own[1] - mean).square(), own[3]};
  second = detail::sum_over(ranks, name, std::move(second));
  sums.set({first[0], mean, second[0], second[1]});
}

IKEBANA_INLINE std::vector<double> R2Score::scores() const {
  if (sums.empty())
    throw Error("metric `" + name +
                "`: there was no target to compare with. Evaluate batches with targets.");
  const double rows = sums.number(0), unresolved = 64 * std::numeric_limits<double>::epsilon();
  const at::Tensor means = sums.on_host(1), deviations = sums.on_host(2), errors = sums.on_host(3);
  std::vector<double> scores;
  for (std::int64_t c = 0; c < means.numel(); ++c) {
    const double mean = means[c].item<double>(), deviation = deviations[c].item<double>();
    const double error = errors[c].item<double>(), least = unresolved * mean;
    if (std::isnan(error))
      throw NonFinite("metric `" + name +
                      "`: an output or a target is NaN. Look for where the model computes NaN, and "
                      "leave targets that are missing out by an OutputTransform.");
    scores.push_back(deviation > rows * least * least ? 1 - error / deviation
                                                      : std::numeric_limits<double>::quiet_NaN());
  }
  return scores;
}

IKEBANA_INLINE double R2Score::value() const {
  const std::vector<double> all = scores();
  double sum = 0, weights = 0;
  for (std::size_t c = 0; c < all.size(); ++c) {
    if (std::isnan(all[c])) continue;
    const bool is_weighted = multioutput == Multioutput::VarianceWeighted;
    const double weight =
        is_weighted ? sums.on_host(2)[static_cast<std::int64_t>(c)].item<double>() : 1;
    sum += weight * all[c], weights += weight;
  }
  return weights > 0 ? sum / weights : std::numeric_limits<double>::quiet_NaN();
}

IKEBANA_INLINE MetricValues R2Score::values() const {
  return per_output ? detail::by_index(scores()) : MetricValues();
}

}  // namespace ikebana
