#include "guarantees.hpp"

#include <set>

namespace gpu {

namespace out_of_memory_parts {

/// Returns the bytes that a step needs beyond the bytes in use when it begins, with the state
/// `before`.
template <class T, class Batch>
std::int64_t needed_by_step(T& trainer, const StateDict& before, const Batch& batch,
                            bridge::MemoryCounter& counter) {
  trainer.restore(before);
  const std::int64_t in_use = counter.now();
  counter.reset_peak();
  trainer.step(batch);
  return counter.peak() - in_use;
}

/// Lowers the memory from what a step needs to what is in use before it, so that each of its larger
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
  const std::int64_t needed = needed_by_step(trainer, before, batch, counter);
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

std::vector<at::Tensor> values_of(const Net& model) {
  std::vector<at::Tensor> all;
  for (const auto& p : model->parameters()) all.push_back(p.detach().cpu());
  return all;
}
/// Trains with memory down to half of what one microbatch needs: each step is made, with the bits
/// of Accumulate<N>, or throws OutOfMemory.
template <class... Policies>
void every_failure_repeats_the_step(Policies... policies) {
  const auto batch = texts(1)[0];
  auto made = [&](auto accumulate) {
    Net model = net(0.2);
    model->to(device());
    Trainer trainer{model, policies..., accumulate};
    for (int i = 0; i < 2; ++i) trainer.step(batch);
    return trainer;
  };
  auto trainer = made(Accumulate<Fit<>>{.max = 8});
  const auto before = trainer.state();
  auto counted = made(Accumulate<>{.microbatches = 1});
  const auto counted_before = counted.state();
  auto with = [&](std::int64_t microbatches) {
    counted.restore(counted_before);
    counted.template get<Accumulate<>>().microbatches = microbatches;
    counted.step(batch);
    return values_of(counted.model());
  };
  bridge::MemoryCounter counter(device());
  const std::int64_t needed = needed_by_step(trainer, before, batch, counter);
  std::set<std::int64_t> numbers;
  for (std::int64_t i = 0; i <= 20; ++i) {
    trainer.restore(before);
    limit_memory(counter.now() + needed * (20 + i) / 40 + (1 << 15));
    Report report;
    const auto message = test::message_of<OutOfMemory>([&] { report = trainer.step(batch); });
    CHECK(message.empty() == report.undone.has_value());
    limit_memory(0);
    if (message.empty() && numbers.insert(report.microbatches).second)
      CHECK(test::same_bits(values_of(trainer.model()), with(report.microbatches)));
  }
  CHECK(numbers.size() >= 2);
}

}  // namespace out_of_memory_parts
using namespace out_of_memory_parts;

TEST_CASE("memory that ends in a step lets Accumulate<Fit<>> make it again") {
  NOT_RUN_UNLESS(on_simulated(), "only the simulated device's memory can be limited");
  every_failure_repeats_the_step(adamw, Precision<BF16>{}, EMA{});
  every_failure_repeats_the_step(adamw, Precision<BF16Weights>{}, Checkpoint<Full>{});
  Net model = net();
  model->to(device());
  const Accumulate<Fit<>> limited{.max = 8, .limit = 1 << 30};
  CHECK(test::contains(test::message_of<BadValue>([&] { Trainer(model, adamw, limited); }),
                       "limit is 1073741824 bytes, and the model is on "));
}

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
