#pragma once
#include <array>
#include <ikebana/optimizer/each.hpp>
#include <ikebana/optimizer/parallel.hpp>

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

/// One parameter, in a pass over its memory.
template <class T>
void lion_in_a_pass(const One& one, const Lion& v) noexcept {
  using Real = wide_t<T>;
  T *p = memory<T>(one.parameter()), *m = memory<T>(one.state(0));
  const T* g = memory<T>(one.undivided());
  const Real first = v.betas[0], second = v.betas[1];
  const Real divisor = v.maximize ? -one.divisor() : one.divisor();
  const Real rate = one.lr(), keep = 1 - one.lr() * one.weight_decay();
  in_parallel(one.parameter().numel(), 1 << 15, [=](std::int64_t i, std::int64_t end) {
    for (; i < end; ++i) {
      Real gradient = g[i] / divisor, moment = m[i];
      Real mixed = first * moment + (1 - first) * gradient;
      p[i] = keep * p[i] - rate * ((mixed > 0) - (mixed < 0));
      m[i] = second * moment + (1 - second) * gradient;
    }
  });
}

/// One parameter, by operators of any device.
inline void lion_by_operators(const One& one, const Lion& v) noexcept {
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
      return !elsewhere(p) ? 0 : detail::Scratch::bytes(p.numel(), p.scalar_type());
    });
  }
  void update(const Masters&, StepGradients& gradients) noexcept {
    update_each(gradients, [&](const detail::One& one) {
      const at::Tensor& p = one.parameter();
      if (one.elsewhere) return detail::lion_by_operators(one, values);
      detail::with_type(p.scalar_type(),
                        [&]<class T>(T) { detail::lion_in_a_pass<T>(one, values); });
    });
  }
  std::string describe() const {
    return "lr=" + c10::str(values.lr) + ", betas=(" + c10::str(values.betas[0]) + ", " +
           c10::str(values.betas[1]) + "), weight_decay=" + c10::str(values.weight_decay) +
           (values.maximize ? ", maximize" : "");
  }
  void state(Archive& archive, const Masters& masters) {
    archive.number("lr", values.lr);
    archive.number("weight_decay", values.weight_decay);
    save(archive, masters, 1);
  }

 private:
  void check_values() const { check_rate(), check_betas(); }
};

}  // namespace ikebana
