#pragma once
// The policy ClipGradNorm and its mechanism.
#include <ikebana/detail/deferred_check.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Scales all gradients so that their total 2-norm is at most `max_norm`, which must be positive.
/// Cost: one pass that computes the norm; the update divides by the factor together with its other
/// divisors. If the norm is not finite, the step throws NonFinite, or with
/// `error_if_nonfinite = false` makes no update. The report has the norm before clipping. A sparse
/// gradient counts with the norm of its rows, which PyTorch's function does not support. Source:
/// torch.nn.utils.clip_grad_norm_.
struct ClipGradNorm {
  double max_norm = 1;
  bool error_if_nonfinite = true;
};

template <std::same_as<ClipGradNorm> Policy>
struct Mechanism<Policy> : ClipHooks {
  ClipGradNorm values;
  explicit Mechanism(ClipGradNorm v) : values(v) { check(); }

  template <class Ranks>
  void clip(StepGradients& gradients, Ranks& ranks) {
    check();
    at::Tensor norm = any_sparse(gradients.values)
                          ? total_norm(elements_of_all(gradients.values), ranks)
                          : total_norm(gradients.values, ranks);
    if (!norm.defined()) return;
    if (gradients.divisor.defined()) norm = norm / gradients.divisor;
    gradients.norm = norm;
    gradients.divide(divisor(norm));
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
  /// The gradients, with sparse ones replaced by the elements of their rows.
  static Tensors elements_of_all(const Tensors& gradients) {
    Tensors all;
    for (const at::Tensor& gradient : gradients) {
      if (gradient.layout() != at::kStrided && !gradient.is_sparse())
        throw BadModel("ClipGradNorm: a gradient of shape " + c10::str(gradient.sizes()) +
                       " has layout " + c10::str(gradient.layout()) +
                       ", which is not supported. Make it dense, or sparse by rows (COO).");
      all.push_back(elements_of(gradient));
    }
    return all;
  }
  /// Computed in the gradients' dtype, as PyTorch does; returned as Float, since it becomes a
  /// divisor.
  template <class Ranks>
  static at::Tensor total_norm(const Tensors& gradients, Ranks& ranks) {
    if (gradients.empty()) return {};
    at::Tensor norm = at::linalg_vector_norm(stacked(at::_foreach_norm(gradients, 2)), 2);
    if (ranks.ranks() > 1) norm = ranks.sum(norm * norm).sqrt();
    return norm.scalar_type() == at::kFloat ? norm : norm.to(at::kFloat);
  }
  /// at::stack without the dispatcher on a CPU: the same bits, and for a small model the dispatcher
  /// costs more than the norms do. The same holds for `divisor`.
  static at::Tensor stacked(const Tensors& norms) {
    c10::SmallVector<float, 64> all;
    for (const at::Tensor& norm : norms) {
      if (!detail::readable(norm) || norm.scalar_type() != at::kFloat) return at::stack(norms);
      all.push_back(static_cast<float>(detail::number(norm)));
    }
    return at::tensor(c10::ArrayRef<float>(all));
  }
  /// max(1, norm / max_norm)
  at::Tensor divisor(const at::Tensor& norm) const {
    if (!detail::readable(norm)) return ((norm + 1e-6) / values.max_norm).clamp_min(1);
    float factor =
        (static_cast<float>(detail::number(norm)) + 1e-6f) / static_cast<float>(values.max_norm);
    return detail::scalar(factor < 1 ? 1 : factor, at::kFloat, norm.device());
  }
};

}  // namespace ikebana
