#pragma once
// The policy Adagrad and its mechanism.
#include <ikebana/optimizer/per_parameter.hpp>

namespace ikebana {

/// Divides each element's step by the root of the sum of its squared gradients so far. State: one
/// sum in the parameter's dtype and one step count. Cost: one fused operator per group on a CPU;
/// elsewhere, where not every LibTorch has that operator, several per parameter. Fields and
/// defaults as torch.optim.Adagrad. Source: Duchi et al., Journal of Machine Learning Research 12,
/// 2011.
struct Adagrad {
  double lr = 1e-2;                      ///< learning rate; a schedule multiplies it
  double lr_decay = 0;                   ///< step t, from 0, has lr / (1 + t * lr_decay)
  double weight_decay = 0;               ///< adds weight_decay * parameter to the gradient
  double initial_accumulator_value = 0;  ///< what the sums of squares start with
  double eps = 1e-10;                    ///< added to the denominator
  bool maximize = false;                 ///< maximises the loss instead
  std::vector<Group> groups = {};        ///< parameters with values of their own
};

namespace detail {

inline void adagrad_by_operators(const ParameterUpdate& update, const Adagrad& v) {
  const at::Tensor &p = update.parameter(), &sum = update.state(0), &g = update.gradient();
  at::Tensor root_of_sum = update.scratch.like(p);
  if (v.maximize) g.neg_();
  if (update.weight_decay() != 0) g.add_(p, update.weight_decay());
  sum.addcmul_(g, g);
  at::sqrt_out(root_of_sum, sum).add_(update.eps());
  g.div_(root_of_sum);
  update.with_lr_and_step([&](const auto& lr, const auto& step) {
    subtract_scaled(p, g, lr / (1 + (step - 1) * v.lr_decay));
  });
}

}  // namespace detail

template <std::same_as<Adagrad> Policy>
struct Mechanism<Policy> : detail::PerParameterOptimizer<Adagrad> {
  explicit Mechanism(Adagrad v)
      : PerParameterOptimizer(v, {sum_slot(v)}), initial_(v.initial_accumulator_value) {
    check_values();
  }

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_each(masters, gradients, rate, 1, [&](const at::Tensor& p, const at::Tensor&) {
      return is_fused(p) ? 0 : detail::Scratch::bytes(p.numel(), p.scalar_type());
    });
    if (is_fused(masters.values[0])) keep_if_asked();
  }
  void update(const Masters& masters, StepGradients& gradients) {
    if (is_fused(masters.values[0])) return update_fused(gradients);
    update_each(gradients, [&](const detail::ParameterUpdate& update) {
      detail::adagrad_by_operators(update, values);
    });
  }
  std::string describe() const {
    return "lr=" + c10::str(values.lr) + ", lr_decay=" + c10::str(values.lr_decay) +
           ", weight_decay=" + c10::str(values.weight_decay) + ", eps=" + c10::str(values.eps) +
           (initial_ == 0 ? "" : ", initial_accumulator_value=" + c10::str(initial_)) +
           (values.maximize ? ", maximize" : "");
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 1); }

 private:
  /// Also while a step is recorded: the operator itself reads the rate and the flag.
  bool is_fused(const at::Tensor& p) const { return p.is_cpu() && !as_on_device_; }
  static detail::Slot sum_slot(const Adagrad& v) {
    return {"sum", [first = v.initial_accumulator_value](const at::Tensor& p, const Slice&) {
              return at::full_like(p, first);
            }};
  }
  void update_fused(const StepGradients& gradients) noexcept {
    update_buckets(gradients, [&](detail::Bucket& b, const auto& divisor, const auto& found_inf) {
      at::_fused_adagrad_(b.parameters, b.gradients, b.state[0], b.steps, b.lr, values.lr_decay,
                          b.numbers.weight_decay, b.numbers.eps, values.maximize, divisor,
                          found_inf);
    });
  }
  void check_values() const {
    check_rate();
    const double sum = values.lr_decay + values.eps + values.initial_accumulator_value;
    check(values.lr_decay >= 0 && values.eps >= 0 && values.initial_accumulator_value >= 0 &&
              std::isfinite(sum),
          [&] {
            return "lr_decay is " + c10::str(values.lr_decay) + ", eps " + c10::str(values.eps) +
                   ", initial_accumulator_value " + c10::str(values.initial_accumulator_value) +
                   "; they must be finite and not negative.";
          });
    detail::check_unchanged(values.initial_accumulator_value == initial_,
                            "Adagrad: initial_accumulator_value");
  }

  double initial_;  // what the state of the first step begins with
};

}  // namespace ikebana
