#pragma once
#include <array>
#include <bit>
#include <ikebana/optimizer/per_parameter.hpp>
#include <ikebana/detail/parallel.hpp>

namespace ikebana {

/// Evolved sign momentum: every number moves by lr, whichever way its momentum points, so that an
/// lr of a third to a tenth of AdamW's fits, and a weight_decay as much larger. One moment in the
/// parameters' type; one pass over memory on a CPU. Defaults as the paper's, whose lr is 1e-4.
/// PyTorch has no Lion. Source: Chen et al., arXiv:2302.06675.
struct Lion {
  double lr = 1e-4;
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;
  bool maximize = false;
  std::vector<Group> groups = {};
};

namespace detail {

/// size, with the sign of x; 0 where x is 0. By bits: a compiler may not make vectors of what
/// compares numbers, and the sign of a gradient is what a processor cannot foretell.
template <class Real>
Real with_sign_of(Real x, Real size) {
  using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint32_t>;
  constexpr Bits top = Bits{1} << (8 * sizeof(Real) - 1);
  const auto bits = std::bit_cast<Bits>(x);
  const Bits magnitude = (bits & ~top) != 0 ? std::bit_cast<Bits>(size) : 0;
  return std::bit_cast<Real>(magnitude | (bits & top));
}

/// A step, in the numbers it is computed in.
template <class Real>
struct LionStep {
  Real rate, keep, first, second, divisor;

  template <class T>
  void operator()(T* __restrict p, T* __restrict m, const T* __restrict g, auto n) const noexcept {
    const Real size = rate, kept = keep, b1 = first, b2 = second, d = divisor;
    for (std::int64_t i = 0; i < n; ++i) {
      const Real gradient = static_cast<Real>(g[i]) / d, moment = static_cast<Real>(m[i]);
      const Real mixed = b1 * moment + (1 - b1) * gradient;
      p[i] = static_cast<T>(kept * static_cast<Real>(p[i]) - with_sign_of(mixed, size));
      m[i] = static_cast<T>(b2 * moment + (1 - b2) * gradient);
    }
  }
};

/// One parameter, in a pass over its memory.
template <class T>
void lion_in_a_pass(const ParameterUpdate& one, const Lion& v) noexcept {
  auto real = [](double x) { return static_cast<wide_t<T>>(x); };
  const LionStep<wide_t<T>> step{real(one.lr()), real(1 - one.lr() * one.weight_decay()),
                                 real(v.betas[0]), real(v.betas[1]),
                                 real(v.maximize ? -one.divisor() : one.divisor())};
  T *p = memory<T>(one.parameter()), *m = memory<T>(one.state(0));
  const T* g = memory<T>(one.undivided());
  in_parallel(one.parameter().numel(), 1 << 15, [=](std::int64_t begin, std::int64_t end) {
    in_tiles(begin, end, [=](std::int64_t i, auto n) { step(p + i, m + i, g + i, n); });
  });
}

/// One parameter, by operators of any device.
inline void lion_by_operators(const ParameterUpdate& one, const Lion& v) noexcept {
  const at::Tensor &p = one.parameter(), &m = one.state(0), &g = one.gradient();
  at::Tensor step = one.scratch.like(p);
  if (v.maximize) g.neg_();
  at::lerp_out(step, m, g, 1 - v.betas[0]).sign_();
  m.lerp_(g, 1 - v.betas[1]);
  one.with_numbers([&](const auto& lr, const auto&) {
    if (one.weight_decay() != 0) p.mul_(1 - lr * one.weight_decay());
    step_along(p, step, lr);
  });
}

}  // namespace detail

template <>
struct Mechanism<Lion> : detail::EachParameter<Lion> {
  explicit Mechanism(Lion v) : EachParameter(std::move(v), {{"exp_avg"}}) { check_values(); }

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_each(masters, gradients, rate, 1, [&](const at::Tensor& p, const at::Tensor&) {
      return !on_device(p) ? 0 : detail::Scratch::bytes(p.numel(), p.scalar_type());
    });
  }
  void update(const Masters&, StepGradients& gradients) noexcept {
    update_each(gradients, [&](const detail::ParameterUpdate& one) {
      const at::Tensor& p = one.parameter();
      if (one.on_device) return detail::lion_by_operators(one, values);
      detail::with_type(p.scalar_type(),
                        [&]<class T>(T) { detail::lion_in_a_pass<T>(one, values); });
    });
  }
  std::string describe() const {
    return "lr=" + c10::str(values.lr) + ", betas=(" + c10::str(values.betas[0]) + ", " +
           c10::str(values.betas[1]) + "), weight_decay=" + c10::str(values.weight_decay) +
           (values.maximize ? ", maximize" : "");
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 1); }

 private:
  void check_values() const { check_rate(), check_betas(); }
};

}  // namespace ikebana
