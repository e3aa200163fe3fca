#pragma once
#include <ikebana/optimizer/per_parameter.hpp>

namespace ikebana {

/// Steps that shrink with the sum of all squared gradients so far. One sum in the parameters' type
/// and one step count. One fused operator a group on a CPU; elsewhere, where not every LibTorch has
/// one, operators a parameter. Fields and defaults as torch.optim.Adagrad. Source: Duchi et al.,
/// Journal of Machine Learning Research 12, 2011.
struct Adagrad {
  double lr = 1e-2;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator_value = 0;
  double eps = 1e-10;
  bool maximize = false;
  std::vector<Group> groups = {};
};

namespace detail {

inline void adagrad_by_operators(const ParameterUpdate& one, const Adagrad& v) noexcept {
  const at::Tensor &p = one.parameter(), &sum = one.state(0), &g = one.gradient();
  at::Tensor root_of_sum = one.scratch.like(p);
  if (v.maximize) g.neg_();
  if (one.weight_decay() != 0) g.add_(p, one.weight_decay());
  sum.addcmul_(g, g);
  at::sqrt_out(root_of_sum, sum).add_(v.eps);
  g.div_(root_of_sum);
  one.with_numbers([&](const auto& lr, const auto& step) {
    step_along(p, g, lr / (1 + (step - 1) * v.lr_decay));
  });
}

}  // namespace detail

template <>
struct Mechanism<Adagrad> : detail::EachParameter<Adagrad> {
  explicit Mechanism(Adagrad v) : EachParameter(v, {sum(v)}) { check_values(); }

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_each(masters, gradients, rate, 1, [&](const at::Tensor& p, const at::Tensor&) {
      return !on_device(p) ? 0 : detail::Scratch::bytes(p.numel(), p.scalar_type());
    });
  }
  void update(const Masters& masters, StepGradients& gradients) noexcept {
    if (!on_device(masters.values[0])) return update_fused(gradients);
    update_each(gradients,
                [&](const detail::ParameterUpdate& one) { detail::adagrad_by_operators(one, values); });
  }
  std::string describe() const {
    return "lr=" + c10::str(values.lr) + ", lr_decay=" + c10::str(values.lr_decay) +
           ", weight_decay=" + c10::str(values.weight_decay) + ", eps=" + c10::str(values.eps) +
           (values.maximize ? ", maximize" : "");
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 1); }

 private:
  static detail::Slot sum(const Adagrad& v) {
    return {"sum", [first = v.initial_accumulator_value](const at::Tensor& p) {
              return at::full_like(p, first);
            }};
  }
  void update_fused(const StepGradients& gradients) noexcept {
    update_buckets(gradients, [&](detail::Bucket& b, const auto& divisor, const auto& found_inf) {
      at::_fused_adagrad_(b.parameters, b.gradients, b.state[0], b.steps, b.lr, values.lr_decay,
                          b.weight_decay, values.eps, values.maximize, divisor, found_inf);
    });
  }
  void check_values() const {
    check_rate();
    check(values.lr_decay >= 0 && values.eps >= 0 && values.initial_accumulator_value >= 0,
          "lr_decay, eps or initial_accumulator_value is negative.");
  }
};

}  // namespace ikebana
