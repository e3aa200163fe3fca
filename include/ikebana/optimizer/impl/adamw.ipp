#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/adamw.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<AdamW>::Mechanism(AdamW v) : AdamFamily(std::move(v)) {}

IKEBANA_INLINE void Mechanism<AdamW>::update(const Masters&, StepGradients& gradients) noexcept {
  update_with(gradients, [](auto&&... args) { at::_fused_adamw_(args...); });
}

}  // namespace ikebana
