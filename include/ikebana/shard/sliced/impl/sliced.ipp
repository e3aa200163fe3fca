#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/sliced/sliced.hpp>
#include <type_traits>

namespace ikebana::detail {

IKEBANA_INLINE void LaunchOrder::reset(std::size_t units) {
  order_.resize(units), forward_.reserve(units);
  for (std::size_t i = 0; i < units; ++i) order_[i] = units - 1 - i;
}

IKEBANA_INLINE void LaunchOrder::commit() noexcept {
  auto is_run = [&](std::size_t unit) {
    return std::find(forward_.begin(), forward_.end(), unit) != forward_.end();
  };
  const auto rest = std::remove_if(order_.begin(), order_.end() - 1, is_run);
  std::copy_backward(order_.begin(), rest, order_.end() - 1);
  std::copy(forward_.rbegin(), forward_.rend(), order_.begin());
}

IKEBANA_INLINE void refuse_late(const std::string& unit) {
  throw BadModel("step: unit `" + unit +
                 "` got gradients after those of all its uses had been summed over ranks, as by a "
                 "backward pass within the loss. Let the loss compute gradients of its inputs "
                 "alone: torch::autograd::grad.");
}

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
