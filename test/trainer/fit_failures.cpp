// Accumulate<Fit<>>: whichever allocation of a step fails, the step is made again, in twice as many
// microbatches, and what it leaves has the bits of Accumulate<N>.
#include "failing.hpp"
#include "text_net.hpp"

using namespace ikebana;

namespace test::fit_failures {

/// A state without what Accumulate<Fit<>> adds to it.
StateDict without_fit(StateDict state) {
  std::erase_if(state, [](const auto& item) { return contains(item.first, "Accumulate<Fit"); });
  return state;
}

/// Makes each allocation of a step fail in turn: of the first step, which makes state, and of the
/// second.
template <class... Policies>
void repeats_a_step(std::int64_t steps_before, const Policies&... policies) {
  torch::manual_seed(1);
  const std::pair batch{at::randint(12, {8}, at::kLong), at::randint(4, {8}, at::kLong)};
  auto fresh = [&](auto accumulate) {
    torch::manual_seed(7);
    Trainer trainer{Text(false), policies..., accumulate};
    while (trainer.steps() < steps_before) trainer.step(batch);
    return trainer;
  };
  auto counted = fresh(Accumulate<>{.microbatches = 1});
  const StateDict counted_before = counted.state();
  std::map<std::int64_t, StateDict> after;  // the state, by the number of microbatches
  for (std::int64_t n : {1, 2}) {
    counted.restore(counted_before);
    counted.template get<Accumulate<>>().microbatches = n;
    counted.step(batch);
    after[n] = counted.state();
  }
  CHECK(!same_state(after[1], after[2]));
  for (auto warm = fresh(Accumulate<Fit<4>>{}); warm.steps() < 3;) warm.step(batch);
  auto trainer = fresh(Accumulate<Fit<4>>{});
  const auto& fit = trainer.template mechanism<Accumulate<Fit<4>>>();
  const StateDict before = trainer.state();
  FailingAllocator failing;
  Report report;
  std::int64_t undone = 0;
  auto step = [&] { report = trainer.step(batch); };
  const int allocations = fail_each(step, [&](const std::exception_ptr& error) {
    CHECK(error == nullptr);
    undone += *report.undone;
    CHECK(report.microbatches == 1 + *report.undone);
    CHECK(fit.microbatches() == report.microbatches);
    CHECK(same_state(without_fit(trainer.state()), after[report.microbatches]));
    trainer.restore(before);
  });
  CHECK(allocations == undone);
  CHECK(undone > 25);
  CHECK(fit.changes() == undone);
}

TEST_CASE("fit: a step that runs out of memory is made again, whichever allocation fails") {
  on_own_thread([] {
    const AdamW adamw{.groups = {no_decay()}};
    repeats_a_step(0, adamw, Precision<BF16>{}, EMA{}, CosineAnnealingLR{.T_max = 9});
    repeats_a_step(1, adamw, Precision<BF16>{}, EMA{}, CosineAnnealingLR{.T_max = 9});
    repeats_a_step(1, SGD{.lr = 0.1, .momentum = 0.9}, Precision<FP16>{}, Checkpoint<Full>{});
    repeats_a_step(1, Muon{.match = matrices_but(named("table.*"))}, Precision<BF16Weights>{},
                   ClipGradNorm{});
  });
}

}  // namespace test::fit_failures
