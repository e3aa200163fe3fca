#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/metrics/top_k_accuracy.hpp>

namespace ikebana {

IKEBANA_INLINE void TopKAccuracy::count(const detail::MetricInput& in) {
  const auto batch = detail::read_scores(in, Multiclass{.dim = dim});
  const std::int64_t classes = batch.scores.size(1);
  if (k < 1 || k >= classes)
    throw BadValue("metric `" + name + "`: k is " + std::to_string(k) + ", and there are " +
                   std::to_string(classes) +
                   " classes. Give it at least 1 and fewer than there are, as "
                   "TopKAccuracy{.k = 2}.");
  const at::Tensor target = batch.target.values.unsqueeze(1), own = batch.scores.gather(1, target);
  const at::Tensor is_before = at::arange(classes, target.options()) < target;
  const at::Tensor larger = (batch.scores > own) | ((batch.scores == own) & is_before);
  const at::Tensor correct = (larger.sum(1) < k) & batch.target.counted;
  const detail::Faults faults(batch);
  faults.check_now(name);
  sums.add(name, {correct.sum(), faults.all()});
}

IKEBANA_INLINE double TopKAccuracy::value() const {
  detail::Faults::check(name, sums, 1);
  return sums.number(0) / sums[1][3].item<double>();
}

}  // namespace ikebana
