#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/sliced/sliced_unit.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE void SlicedUnit::add(const Tensors& gradients) {
  add(of_microbatch, gradients);
  if (++calls == uses) end_microbatch();
}

IKEBANA_INLINE void SlicedUnit::end_microbatch() {
  if (!of_microbatch.empty()) add(local, std::exchange(of_microbatch, {}));
}

IKEBANA_INLINE void SlicedUnit::forget() noexcept {
  gather.reset();
  of_microbatch.clear(), local.clear();
  sent = {};
}

IKEBANA_INLINE void SlicedUnit::add(Tensors& to, const Tensors& gradients) {
  if (to.empty()) return void(to = gradients);
  for (std::size_t i = 0; i < to.size(); ++i)
    if (gradients[i].defined()) to[i] = to[i].defined() ? to[i] + gradients[i] : gradients[i];
}

}  // namespace ikebana::detail
