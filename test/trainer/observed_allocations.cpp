// Tests the heap under Observe<Memory>. A field that is off allocates nothing. If an allocation of
// one that is on fails, the step was made or undone, and nothing listens any more.
#include <ikebana.hpp>

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

TEST_CASE("observed allocations: whichever fails, a step was made or undone, and none listens") {
  on_own_thread([] {
    const Observe<Memory> policy{.by_unit = true, .free_below = 1};
    auto unharmed = fresh(policy), trainer = fresh(policy);
    for (auto* one : {&unharmed, &trainer}) one->step(batch);
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
          int listeners = 0;
          bridge::CountingAllocatorV2::install().tell([&](auto&) { ++listeners; });
          CHECK(listeners == 0);
          undone += error != nullptr;
          if (is_made) trainer.restore(before);
        });
    CHECK(undone > 100);
  });
}

}  // namespace test::observed_allocations
