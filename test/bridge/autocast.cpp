#include "test.hpp"

#include <ikebana/bridge/rng_autocast_state.hpp>

#include "autocast_state.hpp"

using namespace ikebana;

namespace test::autocast_scope {

namespace autocast = at::autocast;
const c10::Device cpu(c10::kCPU);

/// Whether the cast of `weight` was kept from an earlier use: the same tensor comes out again.
bool cached(const at::Tensor& weight) {
  return autocast::cached_cast(at::kBFloat16, weight, c10::kCPU)
      .is_same(autocast::cached_cast(at::kBFloat16, weight, c10::kCPU));
}

TEST_CASE("ambient: autocast scopes nest, and the last one out clears the cache and restores") {
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
    CHECK(kept.use_count() == 2);  // the cache holds it too
  }
  CHECK(State() == plain);
  CHECK(depth() == 0);
  bridge::AutocastScope fresh(at::kCPU, at::kBFloat16);
  const auto now = autocast::cached_cast(at::kBFloat16, weight, c10::kCPU);
  CHECK(now.use_count() == 2);
}

TEST_CASE("ambient: the cache is empty after the last scope") {
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

TEST_CASE("ambient: without the weight cache each use casts anew") {
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
  const auto ambient = bridge::RngAutocastState::capture(cpu);
  bridge::RngAutocastState::Replay replay(ambient, false);
  CHECK_FALSE(cached(weight));
}

TEST_CASE("ambient: a device type without autocast is refused, and nothing has changed") {
  const State plain;
  CHECK_THROWS_AS(bridge::AutocastScope(at::kMeta, at::kBFloat16), c10::Error);
  CHECK(State() == plain);
  CHECK(depth() == 0);
}

}  // namespace test::autocast_scope
