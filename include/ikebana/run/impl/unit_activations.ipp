#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/run/unit_activations.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void UnitActivations::begin_forward(std::int64_t now, std::size_t units) {
  if (is_known_) return;
  bytes_.assign(units, 0);
  begin_ = now, of_inner_ = 0;
}

IKEBANA_INLINE void UnitActivations::end_unit(std::size_t unit, std::int64_t now,
                                              const Outer& outer) {
  if (is_known_) return;
  const std::int64_t all = now - outer.before;
  bytes_[unit] += all - of_inner_;
  of_inner_ = outer.of_inner + all;
}

IKEBANA_INLINE void UnitActivations::end_forward(std::int64_t now) {
  if (!is_known_) bytes_[0] += now - begin_ - of_inner_;
  is_known_ = true;
}

}  // namespace ikebana::detail
