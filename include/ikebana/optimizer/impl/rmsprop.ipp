#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/rmsprop.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<RMSprop>::Mechanism(RMSprop v)
    : ElementsByOperators(v, state_slots(v.centered), buffers(values_of(v).any_momentum())),
      centered_(v.centered) {
  check_values();
}

IKEBANA_INLINE std::string Mechanism<RMSprop>::describe() const {
  return detail::named_values("lr", values.lr, "alpha", values.alpha, "eps", values.eps,
                              "weight_decay", values.weight_decay, "momentum", values.momentum) +
         (values.centered ? ", centered" : "") + flags();
}

IKEBANA_INLINE void Mechanism<RMSprop>::state(Archive& archive, const Masters& masters) {
  const bool has_buffers = archive.saving() ? state_.slots_in_use() == 3
                                            : detail::has_slot(archive, masters, "momentum_buffer");
  save(archive, masters, buffers(has_buffers || any_momentum()));
}

IKEBANA_INLINE std::vector<Slot> Mechanism<RMSprop>::state_slots(bool centered) {
  auto if_centered = [centered](const at::Tensor& p, const Slice&) {
    return centered ? at::zeros_like(p) : at::Tensor();
  };
  return {{"square_avg"}, {"grad_avg", if_centered}, {"momentum_buffer"}};
}

IKEBANA_INLINE void Mechanism<RMSprop>::check_values() const {
  check_rate(), check_eps();
  check_at_least_0(values.alpha, "alpha"), check_at_least_0(values.momentum, "momentum");
  detail::check_unchanged(values.centered == centered_, "RMSprop: centered");
}

IKEBANA_INLINE void Mechanism<RMSprop>::update(const Masters& masters, StepGradients& gradients) {
  ElementsByOperators::update(masters, gradients);
}

}  // namespace ikebana
