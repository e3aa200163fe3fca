#pragma once
// Runs the ranks of a test as threads that Gloo connects.
#include <ikebana/shard.hpp>

#include "recipes.hpp"

namespace test::ranks {

/// Calls `f(group)` for each of n ranks, in a thread of its own. Throws the first error that is not
/// of another rank, else the first of all. On a device, which they share, they send over Gloo, and
/// each runs its own backward passes.
template <class F>
void on_groups(std::int64_t n, F&& f, std::chrono::milliseconds timeout = std::chrono::minutes(1)) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  on_threads(n, [&](std::shared_ptr<Wire> wire) {
    c10::AutogradState::get_tls_state().set_multithreading_enabled(model_device.is_cpu());
    f(ProcessGroup(store, wire->rank(), n, {.timeout = timeout, .backend = Backend::Gloo}));
  });
}
/// Makes `f` of `Recipe::check`.
template <class How>
auto shards(Shard<How> policy = {}) {
  return [policy](std::int64_t n, const auto& f) {
    on_groups(n, [&](const ProcessGroup& group) {
      Shard<How> own = policy;
      own.process_group = group;
      f(group.rank(), own);
    });
  };
}

}  // namespace test::ranks
