// Tests the heap under policies on observe. What is off, or only reads clocks, allocates nothing.
// If an allocation of one that is on fails, the step was made or undone, and nothing listens any
// more.
#include <ikebana.hpp>
#include <ikebana/observe.hpp>
#include <ikebana/observe/profile.hpp>

#include "failing.hpp"
#include "text_net.hpp"

namespace test::observed_allocations {

using namespace ikebana;

const std::pair<at::Tensor, at::Tensor> batch{at::arange(8), at::arange(8).remainder(4)};

template <class... Policies>
auto fresh(const Policies&... policies) {
  torch::manual_seed(7);
  return Trainer{Text(false), SGD{.lr = 0.1}, policies...};
}

/// Counts how often a later step calls operator new on this thread.
template <class... Policies>
int allocations(const Policies&... policies) {
  auto trainer = fresh(policies...);
  trainer.step(batch), trainer.step(batch);
  constexpr int many = 1 << 30;
  countdown = many;
  trainer.step(batch);
  return many - std::exchange(countdown, 0);
}

TEST_CASE("observed allocations: Observe<Memory> adds none to a step while its fields are off") {
  on_own_thread([] {
    const int plain = allocations();
    CHECK(plain > 100);
    CHECK(allocations(Observe<Memory>{}) == plain);
    CHECK(allocations(Observe<Memory>{.by_phase = true}) > plain);
  });
}

TEST_CASE("observed allocations: phases and throughput add none to a step") {
  on_own_thread([] {
    const int plain = allocations();
    CHECK(allocations(Observe<Phases>{}) == plain);
    CHECK(allocations(Observe<Throughput>{.bound = 1e9}) == plain);
    CHECK(allocations(Observe<FirstNonFinite>{}) == plain);
  });
}

/// Fails each allocation of a step in turn, after `steps` steps that no allocation fails.
template <class... Policies>
void fail_each_of_step(int steps, const Policies&... policies) {
  on_own_thread([&] {
    auto unharmed = fresh(policies...), trainer = fresh(policies...);
    for (auto* one : {&unharmed, &trainer})
      for (int i = 0; i < steps; ++i) one->step(batch);
    const StateDict before = trainer.state();
    unharmed.restore(before);
    unharmed.step(batch);
    const StateDict after = unharmed.state();
    trainer.restore(before);  // the random generators
    FailingAllocator failing;
    int undone = 0;
    fail_each(
        [&] {
          if (trainer.steps() < unharmed.steps()) trainer.step(batch);
        },
        [&](const std::exception_ptr& error) {
          const bool is_made = trainer.steps() == unharmed.steps();
          CHECK((error == nullptr) == is_made);
          CHECK(same_state(trainer.state(), is_made ? after : before));
          CHECK(bridge::place_source == nullptr);
          CHECK(ikebana::detail::inner_phase_listener == nullptr);
          CHECK(bridge::OpenOperatorScopeV1<bridge::AllOperators>::innermost() == nullptr);
          int listeners = 0;
          bridge::CountingAllocatorV2::install().tell([&](auto&) { ++listeners; });
          CHECK(listeners == 0);
          undone += error != nullptr;
          if (is_made) trainer.restore(before);
        });
    CHECK(undone > 25);
  });
}

TEST_CASE("observed allocations: whichever fails, a step was made or undone, and none listens") {
  fail_each_of_step(1, Observe<Memory>{.by_unit = true, .free_below = 1});
  const Observe<Throughput> throughput{.bound = 1e9};
  for (const int steps : {0, 2})  // the first step counts operators
    fail_each_of_step(steps, Observe<Phases>{.warmup = 0}, throughput,
                      Observe<EachUnit>{.warmup = 1}, Observe<FirstNonFinite>{});
}

/// Profiles a step of two operators.
std::size_t events_of_a_window(Profiler& profiler) {
  profiler.step();
  at::ones({2}).add(1);
  profiler.stop();
  return profiler.result().events.size();
}

TEST_CASE("observed allocations: a profiler that cannot begin leaves LibTorch's off") {
  on_own_thread([] {
    const Observe<Profile> values{.wait = 0, .warmup = 0, .active = 2, .repeat = 1};
    {
      Profiler first(values);
      first.start();
      CHECK(events_of_a_window(first) > 0);
    }
    int failed = 0;
    for (int failing = 1;; failing += is_thorough() ? 1 : 3) {
      CAPTURE(failing);
      Profiler profiler(values);
      bool threw = false;
      countdown = failing;
      try {
        profiler.start();
      } catch (const std::exception&) {
        threw = true;
      }
      if (std::exchange(countdown, 0) > 0) break;
      failed += threw;
      if (threw) profiler.start();
      REQUIRE(events_of_a_window(profiler) > 0);
    }
    CHECK(failed > 5);
  });
}

}  // namespace test::observed_allocations
