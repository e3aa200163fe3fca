#pragma once
#include <ikebana/detail/deferred_check.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Scales all gradients so that their common 2-norm is at most `max_norm` (one number; > 0). One
/// pass: the factor joins the other divisors and is applied by the update itself. A norm that is
/// not finite is never let through: an error, or with `error_if_nonfinite = false` a skipped step.
/// The report has the norm before clipping. The norm of a sparse gradient is that of its rows,
/// which PyTorch's function refuses. Source: torch.nn.utils.clip_grad_norm_.
struct ClipGradNorm {
  double max_norm = 1;
  bool error_if_nonfinite = true;
};

template <>
struct Mechanism<ClipGradNorm> : Hooks {
  ClipGradNorm values;
  explicit Mechanism(ClipGradNorm v) : values(v) { check(); }

  template <class Ranks>
  void clip(StepGradients& gradients, Ranks& ranks) {
    check();
    at::Tensor norm = any_sparse(gradients.values) ? total_norm(numbers(gradients.values), ranks)
                                                   : total_norm(gradients.values, ranks);
    if (!norm.defined()) return;
    if (gradients.divisor.defined()) norm = norm / gradients.divisor;
    gradients.norm = norm;
    gradients.divide(over_max(norm));
  }
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue&, Ranks&, detail::DeferredCheck& deferred) {
    if (!gradients.norm.defined() || gradients.loss_is_scaled) return;
    if (detail::readable(gradients.norm) && std::isfinite(detail::number(gradients.norm))) return;
    at::Tensor flag = gradients.norm.isfinite().logical_not().to(at::kFloat);
    gradients.reject(flag);
    if (values.error_if_nonfinite)
      deferred.expect_zero(flag, [] {
        throw NonFinite(
            "ClipGradNorm: the norm of the gradients is not finite; nothing was updated. "
            "Lower the learning rate, or skip such steps: .error_if_nonfinite = false.");
      });
  }
  std::string describe() const {
    return "max_norm=" + c10::str(values.max_norm) +
           (values.error_if_nonfinite ? "" : ", skips a norm that is not finite");
  }

 private:
  void check() const {
    if (!(values.max_norm > 0))
      throw BadValue("ClipGradNorm: max_norm is " + c10::str(values.max_norm) +
                     "; it must be positive.");
  }
  static bool any_sparse(const Tensors& gradients) {
    for (const at::Tensor& gradient : gradients)
      if (gradient.layout() != at::kStrided) return true;
    return false;
  }
  static Tensors numbers(const Tensors& gradients) {
    Tensors all;
    for (const at::Tensor& gradient : gradients) {
      if (gradient.layout() != at::kStrided && !gradient.is_sparse())
        throw BadModel("ClipGradNorm: a gradient of shape " + c10::str(gradient.sizes()) +
                       " has layout " + c10::str(gradient.layout()) +
                       ", which it does not take. Make it dense, or sparse by rows (COO).");
      all.push_back(elements_of(gradient));
    }
    return all;
  }
  /// In the gradients' own numbers, as PyTorch does; float, since it becomes a divisor.
  template <class Ranks>
  static at::Tensor total_norm(const Tensors& gradients, Ranks& ranks) {
    if (gradients.empty()) return {};
    at::Tensor norm = at::linalg_vector_norm(stacked(at::_foreach_norm(gradients, 2)), 2);
    if (ranks.ranks() > 1) norm = ranks.sum(norm * norm).sqrt();
    return norm.scalar_type() == at::kFloat ? norm : norm.to(at::kFloat);
  }
  /// On CPU numbers are gathered and divided where they are: the same bits, and the operators' way
  /// through the dispatcher costs a small model more than the norms do.
  static at::Tensor stacked(const Tensors& norms) {
    c10::SmallVector<float, 64> numbers;
    for (const at::Tensor& norm : norms) {
      if (!detail::readable(norm) || norm.scalar_type() != at::kFloat) return at::stack(norms);
      numbers.push_back(static_cast<float>(detail::number(norm)));
    }
    return at::tensor(c10::ArrayRef<float>(numbers));
  }
  at::Tensor over_max(const at::Tensor& norm) const {
    if (!detail::readable(norm)) return ((norm + 1e-6) / values.max_norm).clamp_min(1);
    float over =
        (static_cast<float>(detail::number(norm)) + 1e-6f) / static_cast<float>(values.max_norm);
    return detail::scalar(over < 1 ? 1 : over, at::kFloat, norm.device());
  }
};

}  // namespace ikebana
