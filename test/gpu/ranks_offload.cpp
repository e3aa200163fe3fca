// Two ranks on one device that offload: slices of master weights are on the host, and the gradients
// that Shard has summed go there.
#include "ranks.hpp"

#include "guarantees.hpp"

namespace gpu::ranks_offload {

using namespace ikebana;
using test::ranks::batches, test::ranks::Bounds, test::ranks::Counted, test::ranks::on_groups,
    test::ranks::part, test::ranks::recipe, test::ranks::Rows;

/// Numbers that FP32 has: the host computes with them in FP64.
const AdamW steady{.lr = 0x1p-7, .eps = 0x1p-10, .weight_decay = 0.125, .groups = {no_decay()}};
const Offload<CPU> offload{.allow_unused_units = true};

/// The host of a GPU updates with other kernels than the device.
Bounds bounds(Bounds of_bits = {}) {
  if (on_cuda()) return {.bits = false, .norms = 1e-4, .weights = 1e-5};
  return of_bits;
}

/// Returns the results of two ranks, each of which cuts its part of a batch into two microbatches.
template <class Row, class How>
test::ranks::Trace trained_by_two(const Row& row, const Shard<How>& policy) {
  std::vector<Counted> models{test::ranks::make<Counted>(), test::ranks::make<Counted>()};
  std::vector<test::ranks::Trace> traces(2);
  const auto all = batches(4, 8);
  on_groups(2, [&](const ProcessGroup& group) {
    Shard<How> own = policy;
    own.process_group = group;
    const auto rank = static_cast<std::size_t>(group.rank());
    auto trainer = row.trainer(models[rank], 2, own);
    std::vector<Rows> mine;
    for (const Rows& batch : all) mine.push_back(part(batch, group.rank(), 2));
    traces[rank] = test::ranks::trained(trainer, mine);
    trainer.restore_model();
  });
  test::ranks::compare(traces[1], traces[0], {});
  return traces[0];
}
template <class How, class... Where>
void changes_no_bit(const Shard<How>& policy, Where... offloads) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const auto expected = trained_by_two(recipe<Counted>(bounds(), 1, steady, GradNorm{}), policy);
  (test::ranks::compare(
       trained_by_two(recipe<Counted>(bounds(), 1, steady, GradNorm{}, offloads), policy), expected,
       bounds({.norms = 1e-6})),
   ...);
}
TEST_CASE("ranks: Offload under each policy on shard changes no bit") {
  const RanksOnDevice models;
  const Deterministic deterministic;
  const Offload<CPU, OptimizerState> state{.allow_unused_units = true};
  changes_no_bit(Shard<DDP>{.bucket_cap_mb = 0.01, .ordered = true}, offload, state);
  changes_no_bit(Shard<ZeRO1>{}, offload, state);
  changes_no_bit(Shard<FSDP>{}, offload, state);
  changes_no_bit(Shard<FSDP>{.reduce_each_microbatch = true}, offload);
  changes_no_bit(Shard<HSDP<1>>{.ordered = true}, offload);
}

/// Returns the bytes of gradients that one step moves to the host.
template <class T>
std::int64_t gradients_out(T& trainer, const Rows& batch) {
  return trainer.step(batch).offloaded->gradients_out;
}
TEST_CASE("ranks: of a gradient that is cut among ranks, each moves its slice") {
  const RanksOnDevice models;
  const Rows batch = batches(1, 4)[0];
  const auto row = recipe<Counted>(bounds(), 1, steady, offload);
  auto one = row.trainer(test::ranks::make<Counted>(), 1);
  const std::int64_t whole = gradients_out(one, batch);
  CHECK(whole > 0);
  std::vector<std::int64_t> moved(2);
  std::vector<Counted> both{test::ranks::make<Counted>(), test::ranks::make<Counted>()};
  on_groups(2, [&](const ProcessGroup& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    auto trainer = row.trainer(both[rank], 1, Shard<FSDP>{.process_group = group});
    moved[rank] = gradients_out(trainer, part(batch, group.rank(), 2));
    trainer.restore_model();
  });
  CHECK(moved[0] > 0);
  CHECK(moved[1] > 0);
  CHECK(moved[0] + moved[1] == whole);
}

}  // namespace gpu::ranks_offload
