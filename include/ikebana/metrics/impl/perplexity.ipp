#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/metrics/perplexity.hpp>

namespace ikebana {

IKEBANA_INLINE void Perplexity::add(const detail::MetricInput& in) {
  const auto batch = detail::read_scores(in, Multiclass{.dim = dim});
  const at::Tensor own = batch.scores.gather(1, batch.target.values.unsqueeze(1)).squeeze(1);
  const at::Tensor losses = batch.scores.logsumexp(1) - own;
  const detail::Faults faults(batch);
  faults.check_now(name);
  sums.add(name, {at::where(batch.target.counted, losses, 0).sum(at::kDouble), faults.all()});
}

IKEBANA_INLINE double Perplexity::value() const {
  detail::Faults::check(name, sums, 1);
  if (detail::Faults::are_probabilities(sums[1]))
    throw Error("metric `" + name +
                "`: its outputs are probabilities, and it takes their exponential. Give it logits "
                "or log probabilities.");
  return std::exp(sums.number(0) / sums[1][3].item<double>());
}

}  // namespace ikebana
