#pragma once
// Adafactor, and its update of one whole parameter.
#include <ikebana/optimizer/engine/per_parameter.hpp>
#include <optional>
#include <utility>

namespace ikebana {

/// Adam without a first moment, whose second moment is factored into means over rows and columns of
/// the last two dimensions. State of an (n, m) matrix: n + m elements, where Adam has 2 n m;
/// vectors keep an unfactored second moment; one step count. Steps are relative to the RMS of a
/// parameter. Cost: about six passes over memory, and scratch for the largest parameter. Fields and
/// defaults as torch.optim.Adafactor; without a value, `eps.first` is the dtype's machine epsilon.
/// Source: Shazeer and Stern, arXiv:1804.04235.
struct Adafactor {
  double lr = 1e-2;           ///< largest rate relative to the parameter's RMS
  double beta2_decay = -0.8;  ///< in step t the second moment's decay is 1 - t^beta2_decay
  /// The least second moment's root, and the least RMS of a parameter that a step is relative to.
  std::pair<std::optional<double>, double> eps = {std::nullopt, 1e-3};
  double d = 1;                    ///< largest RMS of an update before the rate is applied
  double weight_decay = 0;         ///< decoupled: takes lr * weight_decay * parameter
  bool maximize = false;           ///< maximises the loss instead
  std::vector<Group> groups = {};  ///< parameters with values of their own
};

namespace detail {

/// The shape of `t` with size 1 in dimension `dim`, which counts from the end: -1 or -2.
inline at::DimVector reduced_shape(const at::Tensor& t, std::int64_t dim) {
  at::DimVector sizes(t.sizes());
  if (t.dim() > 1) sizes[static_cast<std::size_t>(t.dim() + dim)] = 1;
  return sizes;
}
/// torch.finfo(type).eps
inline double epsilon_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    case at::kFloat:
      return std::numeric_limits<float>::epsilon();
    case at::kBFloat16:
      return 0x1p-7;
    default:
      return 0x1p-10;
  }
}

/// Updates one whole parameter, by the operators of torch.optim.Adafactor.
class AdafactorStep {
 public:
  AdafactorStep(const ParameterUpdate& update, const Adafactor& values)
      : update_(update), v_(values), p_(update.parameter()), g_(update.gradient()) {}

  static std::int64_t scratch(const at::Tensor& p) {
    auto bytes = [&](std::int64_t n) { return Scratch::bytes(n, p.scalar_type()); };
    if (p.dim() < 2) return bytes(p.numel());
    return bytes(p.numel()) + 2 * bytes(c10::multiply_integers(reduced_shape(p, -1))) +
           bytes(c10::multiply_integers(reduced_shape(p, -2)));
  }
  /// `Number` is double, or a tensor where the host may not read.
  template <class Number>
  void update(const Number& lr, const Number& step) {
    if (v_.maximize) g_.neg_();
    auto n = std::sqrt(static_cast<double>(p_.numel()));
    const double eps = v_.eps.first.value_or(epsilon_of(p_.scalar_type()));
    Number alpha = at_least(norm(p_, lr) / n, v_.eps.second) * smaller(lr, 1 / root(step));
    if (update_.weight_decay() != 0) p_.mul_(1 - lr * update_.weight_decay());
    at::Tensor change = update_.scratch.allocate(p_.sizes(), p_.scalar_type());
    estimate(change, power(step, v_.beta2_decay), eps);
    change.clamp_min_(eps * eps).rsqrt_().mul_(g_);
    subtract_scaled(p_, change, alpha / at_least(norm(change, lr) / (n * v_.d), 1));
  }

 private:
  template <class Number>
  static Number norm(const at::Tensor& t, const Number& like) {
    return as_number(at::linalg_vector_norm(t), like);
  }
  /// Updates the second moment and writes it, unfactored, to `out`.
  template <class Number>
  void estimate(at::Tensor& out, const Number& weight, double eps) {
    if (p_.dim() < 2) {
      const at::Tensor& variance = update_.state(2);
      lerp_inplace(variance, at::mul_out(out, g_, g_), weight);
      out.copy_(variance);
      return;
    }
    const at::Tensor &row = update_.state(0), &column = update_.state(1);
    lerp_inplace(row, mean_of_squares(-1), weight);
    lerp_inplace(column, mean_of_squares(-2), weight);
    at::matmul_out(out, row, column);
    at::Tensor mean = update_.scratch.allocate(reduced_shape(row, -2), p_.scalar_type());
    at::mean_out(mean, row, at::IntArrayRef(-2), /*keepdim=*/true);
    out.div_(mean.clamp_min_(eps));
  }
  at::Tensor mean_of_squares(std::int64_t dim) {
    at::Tensor mean = update_.scratch.allocate(reduced_shape(g_, dim), g_.scalar_type());
    at::linalg_vector_norm_out(mean, g_, 2, at::IntArrayRef(dim), /*keepdim=*/true);
    return mean.square_().div_(g_.size(dim));
  }

  const ParameterUpdate& update_;
  const Adafactor& v_;
  const at::Tensor &p_, &g_;
};

}  // namespace detail
}  // namespace ikebana
