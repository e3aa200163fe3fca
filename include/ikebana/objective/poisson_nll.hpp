#pragma once
// Defines the policy PoissonNLLLoss and its mechanism.
#include <ikebana/objective/output_and_target.hpp>

namespace ikebana {

/// Sum of the negative log-likelihood of counts (the target, of the output's shape, integers or
/// not) under Poisson distributions whose rates are the exponentials of the output, or without
/// `log_input` the output itself, to which `eps` is added. `full` adds Stirling's approximation of
/// log(target!) to it. Counts elements, as PyTorch's mean does. The batch has the fields that
/// CrossEntropyLoss takes. Throws BadBatch if the shapes differ. Source: torch.nn.PoissonNLLLoss.
struct PoissonNLLLoss {
  bool log_input = true;  ///< the output is the logarithm of the rate
  bool full = false;      ///< adds Stirling's approximation of log(target!)
  double eps = 1e-8;      ///< added to a rate, without log_input
  bool outputs = false;   ///< whether the report has the model's outputs
};

template <>
struct Mechanism<PoissonNLLLoss> : detail::OutputAndTarget<PoissonNLLLoss> {
  explicit Mechanism(PoissonNLLLoss v) : OutputAndTarget(v) { check(); }

  at::Tensor sum(const at::Tensor& output, const at::Tensor& target) const;
  std::string describe() const;

 private:
  void check() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/poisson_nll.ipp>
#endif
