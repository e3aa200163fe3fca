#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/adam.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<Adam>::Mechanism(Adam v) : AdamFamily(std::move(v)) {}

IKEBANA_INLINE void Mechanism<Adam>::update(const Masters&, StepGradients& gradients) noexcept {
  update_with(gradients, [](auto&&... args) { at::_fused_adam_(args...); });
}

}  // namespace ikebana
