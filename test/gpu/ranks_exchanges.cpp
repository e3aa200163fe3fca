// Tests two ranks on one device: optimizers that exchange in their update, and batch norm over all
// ranks.
#include "ranks.hpp"

#include "guarantees.hpp"
#include "ranks/sync_trained.hpp"

namespace gpu::ranks_exchanges {

using namespace ikebana;
using test::ranks::Bounds, test::ranks::Counted, test::ranks::recipe, test::ranks::shards;

/// Two ranks have the bits of one with two microbatches, but within `of_gpu` on a GPU.
template <class How, class Optimizer>
void equals_one_rank(const Bounds& bounds, double of_gpu, const Optimizer& optimizer) {
  const RanksOnDevice models;
  const Deterministic deterministic;
  const auto row =
      recipe<Counted>(on_cuda() ? Bounds{.bits = false, .weights = of_gpu} : bounds, 1, optimizer);
  row.check(2, shards<How>(), row.alone(2), row.bounds);
}
TEST_CASE("ranks: Muon sends each matrix to its owner and back") {
  // Its iteration makes rounding of a gradient large; weights change by 0.1 of the largest.
  equals_one_rank<FSDP>({}, 1e-2, Muon{.lr = 1e-2, .otherwise = {.lr = 1e-2, .eps = 1e-3}});
}
TEST_CASE("ranks: AdamW8bit has one scale for blocks in both slices") {
  // A moment is rounded to the next of 256 values.
  equals_one_rank<ZeRO2>(
      {}, 1e-3, AdamW8bit{.lr = 1e-2, .eps = 1e-3, .block_size = 1000, .min_8bit_size = 100});
}
TEST_CASE("ranks: Adafactor adds up means over both slices") {
  equals_one_rank<FSDP>({.bits = false, .weights = 1e-5}, 1e-4, Adafactor{.weight_decay = 0.1});
}
TEST_CASE("ranks: SyncBatchNorm normalises by the rows of both ranks") {
  using namespace test::ranks::sync_training;
  const RanksOnDevice models;
  const Trained expected = on_one_rank(2);
  check_close(on_all<DDP>(2, at::kDouble), expected, 1e-9);
  check_close(on_all<FSDP>(2, at::kDouble), expected, 1e-9);
}

}  // namespace gpu::ranks_exchanges
