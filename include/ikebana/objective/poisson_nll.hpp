#pragma once
// The policy PoissonNLLLoss and its mechanism.
#include <ikebana/objective/output_and_target.hpp>

namespace ikebana {

/// Sum of the negative log-likelihood of counts (the target, of the output's shape, integers or
/// not) under Poisson distributions whose rates are the exponentials of the output, or without
/// `log_input` the output itself, to which `eps` is added. `full` adds Stirling's approximation of
/// log(target!) to it. Counts elements, as PyTorch's mean does. The batch's fields are those of
/// CrossEntropyLoss. Throws BadBatch if the shapes differ. Source: torch.nn.PoissonNLLLoss.
struct PoissonNLLLoss {
  bool log_input = true;  ///< the output is the logarithm of the rate
  bool full = false;      ///< adds Stirling's approximation of log(target!)
  double eps = 1e-8;      ///< added to a rate, without log_input
  bool outputs = false;   ///< whether the report has the model's outputs
};

template <std::same_as<PoissonNLLLoss> Policy>
struct Mechanism<Policy> : detail::OutputAndTarget<PoissonNLLLoss> {
  explicit Mechanism(PoissonNLLLoss v) : OutputAndTarget(v) { check(); }

  at::Tensor sum(const at::Tensor& output, const at::Tensor& target) const {
    check();
    detail::check_same_shape("PoissonNLLLoss", output, target);
    return at::poisson_nll_loss(output, target, values.log_input, values.full, values.eps,
                                at::Reduction::Sum);
  }
  std::string describe() const {
    return std::string(values.log_input ? "log_input" : "") +
           (values.log_input && values.full ? ", " : "") + (values.full ? "full" : "");
  }

 private:
  void check() const {
    if (!(values.eps >= 0 && std::isfinite(values.eps)))
      throw BadValue("PoissonNLLLoss: eps is " + c10::str(values.eps) +
                     "; it must be 0 or more, and finite.");
  }
};

}  // namespace ikebana
