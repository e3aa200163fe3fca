#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/fallback_optimizer.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void FallbackOptimizer::end_step(Report& report) noexcept {
  mechanism.end_step(fallback_, report);
  forget_gradients();
}

IKEBANA_INLINE void FallbackOptimizer::abort() noexcept {
  mechanism.abort();
  forget_gradients();
}

IKEBANA_INLINE void FallbackOptimizer::state(Archive& archive, AdamW& values,
                                             const Masters& masters) {
  mechanism.values = values;
  archive.within("otherwise", [&] { mechanism.state(archive, masters); });
  values = mechanism.values;
}

}  // namespace ikebana::detail
