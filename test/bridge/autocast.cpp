// Tests autocast scopes and the cache of cast weights.
#include "test.hpp"

#include <ATen/autocast_mode.h>
#include <ikebana/bridge/rng_autocast_state.hpp>

#include "autocast_state.hpp"

using namespace ikebana;

namespace test::autocast_scope {

namespace autocast = at::autocast;
const c10::Device cpu(c10::kCPU);

/// Returns true if the cast of `weight` is cached: casting it twice returns the same tensor.
bool cached(const at::Tensor& weight) {
  return autocast::cached_cast(at::kBFloat16, weight, c10::kCPU)
      .is_same(autocast::cached_cast(at::kBFloat16, weight, c10::kCPU));
}

TEST_CASE("autocast: scopes nest, and leaving the outermost clears the cache and restores") {
  const State plain;
  auto weight = torch::randn({4, 4}).requires_grad_();
  {
    bridge::AutocastScope outer(at::kCPU, at::kBFloat16);
    CHECK(depth() == 1);
    const auto kept = autocast::cached_cast(at::kBFloat16, weight, c10::kCPU);
    {
      bridge::AutocastScope inner(at::kCPU, at::kHalf);
      CHECK(depth() == 2);
      CHECK((State().dtype == at::kHalf));
      {
        bridge::AutocastScope off(at::kCPU, at::ScalarType::Undefined);
        CHECK_FALSE(State().enabled);
        CHECK((at::mm(weight, weight).scalar_type() == at::kFloat));
      }
      CHECK(State().enabled);
    }
    CHECK((State().dtype == at::kBFloat16));
    CHECK(autocast::cached_cast(at::kBFloat16, weight, c10::kCPU).is_same(kept));
    CHECK(kept.use_count() == 2);  // one of them by the cache
  }
  CHECK(State() == plain);
  CHECK(depth() == 0);
  bridge::AutocastScope fresh(at::kCPU, at::kBFloat16);
  const auto now = autocast::cached_cast(at::kBFloat16, weight, c10::kCPU);
  CHECK(now.use_count() == 2);
}

TEST_CASE("autocast: the cache is empty after the last scope") {
  auto weight = torch::randn({4, 4}).requires_grad_();
  at::Tensor kept;
  {
    bridge::AutocastScope outer(at::kCPU, at::kBFloat16);
    kept = autocast::cached_cast(at::kBFloat16, weight, c10::kCPU);
    CHECK(kept.use_count() == 2);
    {
      bridge::AutocastScope inner(at::kCPU, at::kBFloat16);
    }
    CHECK(kept.use_count() == 2);
  }
  CHECK(kept.use_count() == 1);
}

TEST_CASE("autocast: without the weight cache each use casts again") {
  auto weight = torch::randn({4, 4}).requires_grad_();
  bridge::AutocastScope on(at::kCPU, at::kBFloat16);
  CHECK(cached(weight));
  {
    bridge::NoWeightCacheScope none;
    CHECK_FALSE(cached(weight));
    {
      bridge::NoWeightCacheScope nested;
    }
    CHECK_FALSE(cached(weight));
  }
  CHECK(cached(weight));
  const auto captured = bridge::RngAutocastState::capture(cpu);
  bridge::RngAutocastState::Replay replay(captured, false);
  CHECK_FALSE(cached(weight));
}

TEST_CASE("autocast: a device type without autocast is an error, and nothing changes") {
  const State plain;
  CHECK_THROWS_AS(bridge::AutocastScope(at::kMeta, at::kBFloat16), c10::Error);
  CHECK(State() == plain);
  CHECK(depth() == 0);
}

}  // namespace test::autocast_scope
