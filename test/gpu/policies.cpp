#include "guarantees.hpp"

namespace gpu {

namespace policies_parts {

/// Compares the training without a checkpoint with the training with one: they have the same bits,
/// and the latter runs `again` of the blocks' forwards a second time.
template <class Checkpointed, class... Policies>
void changes_no_bit(int again, Policies... policies) {
  const Deterministic deterministic;
  const auto batches = texts(3);
  const Trace plain = trained_on(device(), net(0.2), batches, adamw, policies...);
  const int before = BlockImpl::forwards;
  const Trace checkpointed =
      trained_on(device(), net(0.2), batches, adamw, Checkpointed{}, policies...);
  CHECK(same_bits(plain, checkpointed));
  CHECK(BlockImpl::forwards - before == 3 * (3 + again));
}

}  // namespace policies_parts
using namespace policies_parts;

TEST_CASE("two trainings are the same to the bit") {
  const Deterministic deterministic;
  const auto batches = texts(3);
  CHECK(same_bits(trained_on(device(), net(0.2), batches, adamw),
                  trained_on(device(), net(0.2), batches, adamw)));
}
TEST_CASE("Checkpoint<Full> changes no bit") {
  changes_no_bit<Checkpoint<Full>>(3);
  changes_no_bit<Checkpoint<Full>>(3, Precision<BF16>{});
}
TEST_CASE("Checkpoint<Selective> changes no bit") {
  changes_no_bit<Checkpoint<Selective>>(3);
  changes_no_bit<Checkpoint<Selective>>(3, Precision<BF16>{});
}
TEST_CASE("Checkpoint<Every<2>> changes no bit") { changes_no_bit<Checkpoint<Every<2>>>(2); }
TEST_CASE("Checkpoint<Segments<2>> changes no bit") { changes_no_bit<Checkpoint<Segments<2>>>(3); }

TEST_CASE("Accumulate weighs every target the same") {
  follows_the_cpu(rounding, adamw, Accumulate<3>{});
  const auto batches = texts();
  check_near(rounding, trained_on(device(), net(), batches, adamw, Accumulate<3>{}),
             trained_on(device(), net(), batches, adamw));
}
TEST_CASE("a range of batches is one step") {
  const auto batches = texts();
  std::vector<std::vector<Texts>> ranges;
  for (const auto& batch : batches) ranges.push_back(split(batch, 3));
  check_near(rounding, trained_on(device(), net(), ranges, adamw),
             trained_on(device(), net(), batches, adamw));
}
TEST_CASE("a count that is known after forward, as a tensor of the host") {
  auto late = [](auto& run, Net& model, const Texts& batch) {
    Loss loss = model->loss(run, batch);
    loss.count = Count(at::full({}, static_cast<float>(batch.target.numel())));
    return loss;
  };
  follows_the_cpu(rounding, adamw, Accumulate<3>{}, late);
}
TEST_CASE("ClipGradNorm") { follows_the_cpu(rounding, adamw, ClipGradNorm{.max_norm = 0.5}); }
TEST_CASE("ClipGradValue, SkipSpikes and SWA") {
  follows_the_cpu(rounding, adamw, ClipGradValue{.clip_value = 0.05},
                  SkipSpikes{.window = 2, .zscore = 0.5}, SWA{.every_steps = 2});
}
TEST_CASE("a schedule") {
  follows_the_cpu(rounding, adamw, CosineAnnealingLR{.T_max = 4, .warmup_steps = 2});
}
TEST_CASE("InBackward changes no bit") {
  const Deterministic deterministic;
  const auto batches = texts();
  CHECK(same_bits(trained_on(device(), net(0.2), batches, InBackward<AdamW>{adamw}),
                  trained_on(device(), net(0.2), batches, adamw)));
}
TEST_CASE("Freeze keeps every bit of what it freezes") {
  Net model = net();
  model->to(device());
  const auto before = parameters_of(model);
  Trainer trainer{model, adamw, Freeze<Block>{}};
  trained(trainer, texts());
  std::size_t i = 0, kept = 0;
  for (const auto& p : model->named_parameters()) {
    const bool frozen = p.key().rfind("block", 0) == 0;
    CHECK(test::same_bits(p.value().cpu(), before[i++]) == frozen);
    kept += frozen;
  }
  CHECK(kept > 0);
}
TEST_CASE("EMA averages on the device") {
  auto average = [](c10::Device where) {
    Net model = net();
    model->to(where);
    Trainer trainer{model, adamw, EMA{.decay = 0.7}};
    Trace trace = trained(trainer, texts());
    trainer.with_full_weights([&](auto& whole) { trace.parameters = parameters_of(whole); },
                              {.averaged = true});
    return trace;
  };
  check_near(rounding, average(device()), average(at::kCPU));
}
TEST_CASE("many policies at once") {
  follows_the_cpu(coarse, adamw, Precision<BF16>{}, Checkpoint<Selective>{}, Accumulate<2>{},
                  ClipGradNorm{}, EMA{}, CosineAnnealingLR{.T_max = 8});
}

}  // namespace gpu
