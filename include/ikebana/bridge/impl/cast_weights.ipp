#pragma once
#include <ikebana/bridge/cast_weights.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE void forget_cast_weights(c10::DeviceType device) noexcept {
  const bool is_nested = at::autocast::increment_nesting() > 1;
  at::autocast::decrement_nesting();
  if (is_nested || at::autocast::is_autocast_enabled(c10::kCPU) ||
      (device != c10::kCPU && at::autocast::is_autocast_available(device) &&
       at::autocast::is_autocast_enabled(device)))
    at::autocast::clear_cache();
}

IKEBANA_INLINE OwnCastWeights::OwnCastWeights(c10::DeviceType device) : device_(device) {
  forget_cast_weights(device_);
}

}  // namespace ikebana::bridge
