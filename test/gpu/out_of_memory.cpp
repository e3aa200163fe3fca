#include "laws.hpp"

namespace gpu {

namespace out_of_memory_parts {

/// Lowers the memory from what a step needs to what there is before it, so that each of its larger
/// allocations fails once. A step either updates or throws, and then nothing has changed.
template <class... Policies>
void every_failure_undoes_the_step(Policies... policies) {
  const auto batch = texts(1)[0];
  Net model = net();
  model->to(device());
  Trainer trainer{model, policies...};
  trainer.step(batch);
  const auto before = trainer.state(), kept = kept_state(trainer);
  bridge::MemoryCounter counter(device());
  trainer.restore(before);
  const std::int64_t in_use = counter.now();
  counter.reset_peak();
  trainer.step(batch);
  const std::int64_t needed = counter.peak() - in_use;
  REQUIRE(needed > 0);
  int failed = 0, updated = 0;
  const std::int64_t trials = 40;
  for (std::int64_t i = 0; i <= trials; ++i) {
    trainer.restore(before);
    const std::int64_t spare = i == trials ? 1 << 16 : 0;  // blocks are rounded up
    limit_memory(counter.now() + needed * i / trials + spare);
    const auto message = test::message_of<OutOfMemory>([&] { trainer.step(batch), ++updated; });
    limit_memory(0);
    if (message.empty()) continue;
    ++failed;
    CHECK(test::same_state(kept_state(trainer), kept));
  }
  CHECK(failed >= trials / 2);
  CHECK(updated >= 1);
}

}  // namespace out_of_memory_parts
using namespace out_of_memory_parts;

TEST_CASE("memory that ends anywhere in a step undoes the step") {
  NOT_RUN_UNLESS(on_simulated(), "only the simulated device's memory can be limited");
  every_failure_undoes_the_step(adamw, Changed{});
  every_failure_undoes_the_step(adamw, Precision<BF16>{}, Checkpoint<Selective>{}, Accumulate<2>{},
                                ClipGradNorm{}, EMA{}, CosineAnnealingLR{.T_max = 8});
  every_failure_undoes_the_step(adamw, Precision<BF16Weights>{}, Checkpoint<Full>{}, Changed{});
  every_failure_undoes_the_step(adamw, Precision<BF16True>{});
  every_failure_undoes_the_step(Adafactor{}, Changed{});
  every_failure_undoes_the_step(Muon{.lr = 1e-2}, Changed{});
}

}  // namespace gpu
