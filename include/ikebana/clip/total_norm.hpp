#pragma once
// The norm of all gradients, which ClipGradNorm and GradNorm compute and check.
#include <ikebana/clip/layout.hpp>
#include <ikebana/detail/deferred_check.hpp>
#include <ikebana/error.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/non_finite.hpp>

namespace ikebana::detail {

/// The base of policies on the norm of all gradients. A norm that is not finite rejects the update:
/// with `values.error_if_nonfinite` the step throws NonFinite, on a device a later one.
template <class Policy>
class TotalNorm : public ClipHooks {
 public:
  /// Divisors are not applied to the gradients before `clip`: the norm takes them into account.
  static constexpr bool takes_divisor = true;
  using carries_out = Policy;
  Policy values;
  TotalNorm(Policy v, const char* name) : values(std::move(v)), name_(name) {}

  void begin(const Masters& masters) { masters_ = &masters; }
  /// Where parameters are cut, the norm is that of all slices.
  template <class Ranks>
  void close_step(StepGradients& gradients, Ranks& ranks) {
    if (ranks.slices().size() == 1 || gradients.squared_norm.defined()) return;
    gradients.squared_norm = squared_of_slices(gradients);
  }
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue&, Ranks&, DeferredCheck& deferred) {
    const at::Tensor norm = std::exchange(checked_, {});
    if (!norm.defined() || gradients.loss_is_scaled) return;
    if (readable(norm) && std::isfinite(number(norm))) return;
    const auto raise = [name = name_, which = std::exchange(culprit_, {})] {
      throw NonFinite(std::string(name) + ": the norm of the gradients is not finite" + which +
                      "; nothing was updated. Lower the learning rate, or skip such steps: "
                      ".error_if_nonfinite = false.");
    };
    if (values.error_if_nonfinite && gradients.checks_later(norm))
      return gradients.finite.add({norm}, raise);
    at::Tensor flag = non_finite_flag(gradients, norm);
    gradients.reject(flag);
    if (values.error_if_nonfinite) deferred.expect_zero(flag, raise);
  }

 protected:
  /// The norm that this policy has seen in the present step, until `accept` has checked it.
  const at::Tensor& seen_norm() const { return checked_; }
  /// Computes the norm of the true gradients, unless a policy before this one has. Returns it;
  /// undefined where there is no gradient.
  template <class Ranks>
  const at::Tensor& compute_norm(StepGradients& gradients, Ranks& ranks) {
    if (!gradients.norm.defined() || !gradients.norm_is_current) set_norm(gradients, ranks);
    checked_ = gradients.norm;  // a policy behind this one may clamp what is not finite
    culprit_ = must_name(gradients) ? culprit(gradients) : "";
    return gradients.norm;
  }

 private:
  template <class Ranks>
  void set_norm(StepGradients& gradients, Ranks& ranks) const {
    at::Tensor norm;
    if (ranks.slices().size() == 1) norm = norm_of_all(gradients);
    else if (gradients.squared_norm.defined()) norm = gradients.squared_norm.sqrt();
    else norm = ranks.slices().sum(squared_of_slices(gradients)).sqrt();
    if (norm.defined() && gradients.divisor.defined()) norm = norm / gradients.divisor;
    gradients.norm = std::move(norm);
    gradients.norm_is_current = true;
  }
  bool must_name(const StepGradients& gradients) const {
    const at::Tensor& norm = gradients.norm;
    return norm.defined() && values.error_if_nonfinite && !gradients.loss_is_scaled &&
           readable(norm) && !std::isfinite(number(norm));
  }
  static bool any_sparse(const Tensors& gradients) {
    for (const at::Tensor& gradient : gradients)
      if (gradient.layout() != at::kStrided) return true;
    return false;
  }
  /// The gradients, with sparse ones replaced by the elements of their rows.
  Tensors elements_of_all(const Tensors& gradients) const {
    Tensors all;
    for (const at::Tensor& gradient : gradients) {
      check_layout(name_, gradient);
      all.push_back(elements_of(gradient));
    }
    return all;
  }
  at::Tensor norm_of_all(const StepGradients& all) const {
    if (any_sparse(all.values)) return norm_of(elements_of_all(all.values), all.storage);
    return norm_of(all.values, all.storage);
  }
  /// Of the slices of this rank, which may have no gradient: the dtype is that of the masters.
  at::Tensor squared_of_slices(const StepGradients& gradients) const {
    const at::Tensor norm = norm_of_all(gradients);
    bool wide = false;
    for (const at::Tensor& master : masters_->values) wide |= master.scalar_type() == at::kDouble;
    const at::ScalarType type = wide ? at::kDouble : at::kFloat;
    if (norm.defined()) return norm.square().to(type);
    return at::zeros({}, masters_->values[0].options().dtype(type).requires_grad(false));
  }
  /// Computed in the gradients' dtype, as PyTorch does. Returned as Double where a gradient is
  /// Double, else as Float, since a divisor is made from it.
  static at::Tensor norm_of(const Tensors& gradients, StateStorage* storage) {
    if (gradients.empty()) return {};
    Tensors norms;
    for_windows(storage, gradients, /*writes=*/false, [&](const Tensors& window) {
      Tensors some = at::_foreach_norm(window, 2);
      if (norms.empty()) norms = std::move(some);
      else norms.insert(norms.end(), some.begin(), some.end());
    });
    at::Tensor norm = at::linalg_vector_norm(stacked(norms), 2);
    const bool wide = norm.scalar_type() == at::kFloat || norm.scalar_type() == at::kDouble;
    return wide ? norm : norm.to(at::kFloat);
  }
  /// at::stack without the dispatcher on a CPU: the same bits, and for a small model the dispatcher
  /// costs more than the norms do.
  static at::Tensor stacked(const Tensors& norms) {
    c10::SmallVector<float, 64> all;
    for (const at::Tensor& norm : norms) {
      if (!readable(norm) || norm.scalar_type() != at::kFloat) return at::stack(norms);
      all.push_back(static_cast<float>(number(norm)));
    }
    return at::tensor(c10::ArrayRef<float>(all));
  }
  /// Which gradient is not finite, for the text of an error on a CPU.
  std::string culprit(const StepGradients& gradients) const {
    for (std::size_t k = 0; k < gradients.values.size(); ++k) {
      if (elements_of(gradients.values[k]).isfinite().all().item<bool>()) continue;
      return masters_ ? ", nor is the gradient of `" + masters_->names[gradients.indices[k]] + "`"
                      : "";
    }
    if (gradients.squared_norm.defined())  // of all ranks
      return ", although each gradient of this rank is: another rank's is not, or it overflows";
    return ", although every gradient is: it overflows";
  }

  const char* name_;
  at::Tensor checked_;   // the norm that this policy has seen in the present step
  std::string culprit_;  // what of it is not finite
  const Masters* masters_ = nullptr;
};

}  // namespace ikebana::detail
