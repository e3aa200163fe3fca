#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/adam.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<Adam>::Mechanism(Adam v) : AdamFamily(std::move(v)) {}

IKEBANA_INLINE void Mechanism<Adam>::update(const Masters&, StepGradients& gradients) noexcept {
  for (auto ready = ready_buckets(gradients); const Bucket& b : ready) {
    const at::TensorList largest = values.amsgrad ? b.state[2] : at::TensorList();
    b.with_lr([&](const auto& lr) {
      at::_fused_adam_(b.parameters, b.gradients, b.state[0], b.state[1], largest, b.steps, lr,
                       b.numbers.betas[0], b.numbers.betas[1], b.numbers.weight_decay,
                       b.numbers.eps, values.amsgrad, values.maximize, ready.divisor,
                       ready.found_inf);
    });
  }
}

}  // namespace ikebana
