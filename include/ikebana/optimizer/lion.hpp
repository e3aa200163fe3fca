#pragma once
// Defines the policy Lion and its mechanism.
#include <array>
#include <bit>
#include <ikebana/detail/parallel.hpp>
#include <ikebana/optimizer/engine/per_parameter.hpp>

namespace ikebana {

/// Evolved sign momentum: every element of a parameter moves by `lr` in the direction of its
/// momentum's sign. Use a third to a tenth of AdamW's lr, and a weight_decay that is larger by the
/// same factor. State: one moment in the parameter's dtype. Cost: one pass over memory on a CPU;
/// operators on other devices. Defaults as in the paper, whose lr is 1e-4; PyTorch has no Lion.
/// Source: Chen et al., arXiv:2302.06675.
struct Lion {
  double lr = 1e-4;  ///< the size of each element's step; a schedule multiplies it
  /// Share of the moment in a step's direction, and the moment's decay, in [0, 1).
  std::array<double, 2> betas = {0.9, 0.99};
  double weight_decay = 0;         ///< decoupled: takes lr * weight_decay * parameter
  bool maximize = false;           ///< maximises the loss instead
  std::vector<Group> groups = {};  ///< parameters with values of their own
};

namespace detail {

/// Returns `magnitude` with the sign of x, or 0 if x is 0. Works on bits: compilers do not always
/// vectorize comparisons, and branch prediction fails on the signs of gradients.
template <class Real>
Real with_sign_of(Real x, Real magnitude) {
  using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint32_t>;
  constexpr Bits sign = Bits{1} << (8 * sizeof(Real) - 1);
  const auto bits = std::bit_cast<Bits>(x);
  const Bits nonzero = (bits & ~sign) != 0 ? std::bit_cast<Bits>(magnitude) : 0;
  return std::bit_cast<Real>(nonzero | (bits & sign));
}

/// One update of `n` contiguous elements, computed in Real.
template <class Real>
struct LionStep {
  Real lr, weight_factor, beta1, beta2, divisor;

  template <class T>
  void operator()(T* __restrict p, T* __restrict m, const T* __restrict g, auto n) const noexcept {
    const Real size = lr, factor = weight_factor, b1 = beta1, b2 = beta2, d = divisor;
    for (std::int64_t i = 0; i < n; ++i) {
      const Real gradient = static_cast<Real>(g[i]) / d, moment = static_cast<Real>(m[i]);
      const Real direction = b1 * moment + (1 - b1) * gradient;
      const Real change = with_sign_of(direction, size) + 0 * direction;  // NaN if not finite
      p[i] = static_cast<T>(factor * static_cast<Real>(p[i]) - change);
      m[i] = static_cast<T>(b2 * moment + (1 - b2) * gradient);
    }
  }
};

/// Updates one parameter on the CPU in one pass over its memory.
template <class T>
void lion_on_cpu(const ParameterUpdate& update, const Lion& v) noexcept {
  auto real = [](double x) { return static_cast<opmath_t<T>>(x); };
  const LionStep<opmath_t<T>> step{real(update.lr()), real(1 - update.lr() * update.weight_decay()),
                                   real(update.betas()[0]), real(update.betas()[1]),
                                   real(v.maximize ? -update.divisor() : update.divisor())};
  T *p = data_of<T>(update.parameter()), *m = data_of<T>(update.state(0));
  const T* g = data_of<T>(update.undivided());
  in_parallel(p, update.parameter().numel(), 1 << 15,
              [=](std::int64_t begin, std::int64_t end) noexcept {
                in_tiles(begin, end, [=](std::int64_t i, auto n) { step(p + i, m + i, g + i, n); });
              });
}

}  // namespace detail

template <>
struct Mechanism<Lion> : PerParameterOptimizer<Lion> {
  explicit Mechanism(Lion v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_each(masters, gradients, rate, 1, [&](const at::Tensor& p, const at::Tensor&) {
      return !on_device(p) ? 0 : Scratch::bytes(p.numel(), p.scalar_type());
    });
  }
  void update(const Masters&, StepGradients& gradients);
  std::string describe() const;
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 1); }

 private:
  void check_values() const { check_rate(), check_betas(); }
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/lion.ipp>
#endif
