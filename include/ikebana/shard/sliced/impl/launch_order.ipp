#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/sliced/launch_order.hpp>

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

}  // namespace ikebana::detail
