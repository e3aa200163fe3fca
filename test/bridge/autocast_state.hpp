#pragma once
// Defines the state of autocast on this thread, for comparison before and after.
#include <ATen/autocast_mode.h>
#include <ikebana/bridge/rng_autocast_state.hpp>

namespace test {

namespace autocast = at::autocast;

struct State {
  bool enabled = autocast::is_autocast_enabled(at::kCPU);
  at::ScalarType dtype = autocast::get_autocast_dtype(at::kCPU);
  bool cache = autocast::is_autocast_cache_enabled();
  bool operator==(const State&) const = default;
};

/// Returns the nesting depth of autocast on this thread.
inline int depth() {
  const int inside = autocast::increment_nesting();
  autocast::decrement_nesting();
  return inside - 1;
}

}  // namespace test
