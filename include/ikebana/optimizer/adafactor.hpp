#pragma once
#include <ikebana/optimizer/per_parameter.hpp>
#include <optional>
#include <utility>

namespace ikebana {

/// Adam without a first moment, its second kept as the means of rows and columns: of a matrix of
/// (n, m) n + m numbers instead of two times n m, of other shapes one number a row and column of
/// the last two dimensions, of vectors all; and one step count. Steps are relative to the size of a
/// parameter. Scratch of the largest parameter; some six passes over memory. Fields and defaults as
/// torch.optim.Adafactor; `eps.first` left out is the type's own epsilon. Source: Shazeer and
/// Stern, arXiv:1804.04235.
struct Adafactor {
  double lr = 1e-2;
  double beta2_decay = -0.8;
  std::pair<std::optional<double>, double> eps = {std::nullopt, 1e-3};
  double d = 1;
  double weight_decay = 0;
  bool maximize = false;
  std::vector<Group> groups = {};
};

namespace detail {

inline at::DimVector without(const at::Tensor& t, std::int64_t dim) {
  at::DimVector sizes(t.sizes());
  if (t.dim() > 1) sizes[static_cast<std::size_t>(t.dim() + dim)] = 1;
  return sizes;
}
/// The smallest e with 1 + e != 1, as torch.finfo tells it.
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

class AdafactorStep {
 public:
  AdafactorStep(const ParameterUpdate& one, const Adafactor& values)
      : one_(one), v_(values), p_(one.parameter()), g_(one.gradient()) {}

  static std::int64_t scratch(const at::Tensor& p) {
    auto bytes = [&](std::int64_t n) { return Scratch::bytes(n, p.scalar_type()); };
    if (p.dim() < 2) return bytes(p.numel());
    return bytes(p.numel()) + 2 * bytes(c10::multiply_integers(without(p, -1))) +
           bytes(c10::multiply_integers(without(p, -2)));
  }
  /// `Number`: double, or a tensor where the host may not read.
  template <class Number>
  void update(const Number& lr, const Number& step) noexcept {
    if (v_.maximize) g_.neg_();
    auto n = std::sqrt(static_cast<double>(p_.numel()));
    const double eps = v_.eps.first.value_or(epsilon_of(p_.scalar_type()));
    Number alpha = at_least(norm(p_, lr) / n, v_.eps.second) * smaller(lr, 1 / root(step));
    if (one_.weight_decay() != 0) p_.mul_(1 - lr * one_.weight_decay());
    at::Tensor change = one_.scratch.take(p_.sizes(), p_.scalar_type());
    estimate(change, power(step, v_.beta2_decay), eps);
    change.clamp_min_(eps * eps).rsqrt_().mul_(g_);
    step_along(p_, change, alpha / at_least(norm(change, lr) / (n * v_.d), 1));
  }

 private:
  template <class Number>
  static Number norm(const at::Tensor& t, const Number& kind) {
    return as_number(at::linalg_vector_norm(t), kind);
  }
  /// The second moment, whole, into `out`.
  template <class Number>
  void estimate(at::Tensor& out, const Number& weight, double eps) {
    if (p_.dim() < 2) {
      const at::Tensor& variance = one_.state(2);
      approach(variance, at::mul_out(out, g_, g_), weight);
      out.copy_(variance);
      return;
    }
    const at::Tensor &row = one_.state(0), &column = one_.state(1);
    approach(row, mean_of_squares(-1), weight);
    approach(column, mean_of_squares(-2), weight);
    at::matmul_out(out, row, column);
    at::Tensor mean = one_.scratch.take(without(row, -2), p_.scalar_type());
    at::mean_out(mean, row, at::IntArrayRef(-2), /*keepdim=*/true);
    out.div_(mean.clamp_min_(eps));
  }
  at::Tensor mean_of_squares(std::int64_t dim) {
    at::Tensor mean = one_.scratch.take(without(g_, dim), g_.scalar_type());
    at::linalg_vector_norm_out(mean, g_, 2, at::IntArrayRef(dim), /*keepdim=*/true);
    return mean.square_().div_(g_.size(dim));
  }

  const ParameterUpdate& one_;
  const Adafactor& v_;
  const at::Tensor &p_, &g_;
};

/// Means of rows or columns, of a parameter with as many of them.
template <int dim>
bool are_means_of(const at::Tensor& state, const at::Tensor& p) {
  return p.dim() > 1 && state.sizes() == at::IntArrayRef(without(p, dim)) &&
         state.dtype() == p.dtype() && state.device() == p.device();
}
template <int dim>
at::Tensor means_of(const at::Tensor& p) {
  return p.dim() > 1 ? at::zeros(without(p, dim), p.options()) : at::Tensor();
}

}  // namespace detail

template <>
struct Mechanism<Adafactor> : detail::EachParameter<Adafactor> {
  explicit Mechanism(Adafactor v) : EachParameter(std::move(v), kinds()) { check_values(); }

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_each(masters, gradients, rate, 3, [](const at::Tensor& p, const at::Tensor&) {
      return detail::AdafactorStep::scratch(p);
    });
  }
  void update(const Masters&, StepGradients& gradients) noexcept {
    update_each(gradients, [&](const detail::ParameterUpdate& one) {
      one.with_numbers([&](const auto& lr, const auto& step) {
        detail::AdafactorStep(one, values).update(lr, step);
      });
    });
  }
  std::string describe() const {
    return "lr=" + c10::str(values.lr) + ", beta2_decay=" + c10::str(values.beta2_decay) +
           ", d=" + c10::str(values.d) + ", weight_decay=" + c10::str(values.weight_decay) +
           (values.maximize ? ", maximize" : "");
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 3); }

 private:
  static std::vector<detail::Slot> kinds() {
    auto vector_only = [](const at::Tensor& p) {
      return p.dim() > 1 ? at::Tensor() : at::zeros_like(p);
    };
    return {{"row_var", detail::means_of<-1>, detail::are_means_of<-1>},
            {"col_var", detail::means_of<-2>, detail::are_means_of<-2>},
            {"variance", vector_only}};
  }
  void check_values() const {
    check_rate();
    check(values.beta2_decay <= 0, "beta2_decay is positive; it must be 0 or negative.");
    check(values.d >= 1, "d is less than 1.");
    check(values.eps.first.value_or(0) >= 0 && values.eps.second >= 0, "eps is negative.");
  }
};

}  // namespace ikebana
