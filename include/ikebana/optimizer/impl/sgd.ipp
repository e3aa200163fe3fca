#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/sgd.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<SGD>::Mechanism(SGD v)
    : GroupedOptimizer(v, {{"momentum_buffer"}}, values_of(v).any_momentum() ? 1 : 0) {
  rate_is_number_ = true;
  check_values();
}

IKEBANA_INLINE void Mechanism<SGD>::update(const Masters&, StepGradients& gradients) {
  keep_if([](const Bucket& b) { return fused_is_wrong(b.parameters[0]); });
  // Without dampening, the first update of a buffer of zeros is the same as any other.
  const bool waits = state_.slots_in_use() > 0 && values.dampening != 0;
  // `update_by_operators` does not read the flag while a step is recorded.
  const detail::UpdateOptions how{.waits_for_flag = waits, .puts_back = detail::recording()};
  for (auto ready = ready_buckets(gradients, how); const Bucket& b : ready) {
    if (fused_is_wrong(b.parameters[0])) {
      update_by_operators(b, ready.divisor, ready.found_inf);
      continue;
    }
    const at::TensorList buffers = b.numbers.momentum == 0 ? at::TensorList() : b.state[0];
    b.with_lr([&](const auto& lr) {
      at::_fused_sgd_(b.parameters, b.gradients, buffers, b.numbers.weight_decay,
                      b.numbers.momentum, lr, values.dampening, values.nesterov, values.maximize,
                      b.first_step, ready.divisor, ready.found_inf);
    });
  }
}

IKEBANA_INLINE std::string Mechanism<SGD>::describe() const {
  return "lr=" + c10::str(values.lr) + ", momentum=" + c10::str(values.momentum) +
         ", weight_decay=" + c10::str(values.weight_decay) + (values.nesterov ? ", nesterov" : "") +
         (values.maximize ? ", maximize" : "");
}

IKEBANA_INLINE void Mechanism<SGD>::state(Archive& archive, const Masters& masters) {
  archive.number("momentum", values.momentum, &factor_range);
  // A schedule, or a value that has changed since, may have needed the buffer.
  const bool has_buffers = archive.saving() ? state_.slots_in_use() > 0
                                            : detail::has_slot(archive, masters, "momentum_buffer");
  save(archive, masters, has_buffers || any_momentum() ? 1 : 0);
}

IKEBANA_INLINE bool Mechanism<SGD>::fused_is_wrong(const at::Tensor& p) {
  return p.is_cpu() && at::isReducedFloatingType(p.scalar_type());
}

IKEBANA_INLINE void Mechanism<SGD>::update_by_operators(
    const Bucket& b, const std::optional<at::Tensor>& divisor,
    const std::optional<at::Tensor>& found_inf) const {
  const bool reads = !detail::recording();
  if (reads && found_inf && detail::number(*found_inf) != 0) return;
  const double lr = reads ? detail::number(b.lr) : 0, decay = b.numbers.weight_decay;
  for (std::size_t j = 0; j < b.indices.size(); ++j) {
    const at::Tensor &p = b.parameters[j], &g = b.gradients[j];
    if (divisor) g.div_(*divisor);
    if (values.maximize) g.neg_();
    if (decay != 0) g.add_(p, decay);
    if (b.numbers.momentum != 0) add_momentum(b, b.state[0][j], g);
    if (reads) p.add_(g, -lr);
    else p.copy_(p.to(at::kFloat).sub_(g.to(at::kFloat).mul_(b.lr)));
  }
}

IKEBANA_INLINE void Mechanism<SGD>::add_momentum(const Bucket& b, const at::Tensor& buffer,
                                                 const at::Tensor& g) const {
  if (b.first_step) buffer.copy_(g);
  else buffer.mul_(b.numbers.momentum).add_(g, 1 - values.dampening);
  if (values.nesterov) g.add_(buffer, b.numbers.momentum);
  else g.copy_(buffer);
}

IKEBANA_INLINE void Mechanism<SGD>::check_values() const {
  check_rate();
  check(values.momentum >= 0 && std::isfinite(values.momentum + values.dampening), [&] {
    return "momentum is " + c10::str(values.momentum) + " and dampening " +
           c10::str(values.dampening) + "; both must be finite, and momentum not negative.";
  });
  check(!values.nesterov || (values.momentum > 0 && values.dampening == 0), [&] {
    return "nesterov is true, momentum " + c10::str(values.momentum) + " and dampening " +
           c10::str(values.dampening) + "; nesterov needs a momentum and no dampening.";
  });
}

IKEBANA_INLINE void Mechanism<SGD>::check_momenta() {
  bool any = false, all = true;
  for (const Bucket& b : buckets_) {
    const bool moves = b.numbers.momentum != 0;
    any |= moves, all &= moves;
  }
  check(all || !any || values.dampening == 0,
        "some parameters have a momentum of 0 and others have not, and dampening is not 0. Give "
        "all a momentum, or leave dampening out.");
  check(all || !values.nesterov,
        "nesterov is true, and a group or the schedule makes the momentum 0. Nesterov needs one.");
}

}  // namespace ikebana
