// Optimizers that need more than their slice, and BF16 weights that are rounded stochastically:
// training on several ranks equals training on one with as many microbatches.
#include "test.hpp"

#include "equals_one_rank.hpp"

using namespace ikebana;

namespace test::ranks::shard_optimizers {

const Muon muon{.lr = 1e-2,
                .match = matrices_but(named("embed.*", "head.*")),
                .otherwise = {.lr = 1e-2, .groups = {no_decay()}},
                .groups = {{.match = named("*.up.weight"), .weight_decay = 0.3}}};
/// Two or three ranks have 16 or 24 rows of the 48 x 48 matrices: blocks of 1000 elements lie in
/// two or three slices.
const AdamW8bit eight_bits{.lr = 1e-2, .block_size = 1000, .min_8bit_size = 100};

TEST_CASE("shard optimizers: Muon, a rejected step under FP16, the norm") {
  equals_one_rank<ZeRO1, ZeRO2, FSDP>(recipe<Counted>(
      {.norms = 1e-6}, 1, muon, Precision<FP16>{.init_scale = 0x1p40, .backoff_factor = 0x1p-30},
      GradNorm{}));
}
TEST_CASE("shard optimizers: Muon with Lion for the others, BF16Weights, Checkpoint<Full>") {
  const Combined<Muon, Lion> both{.first = {.lr = 1e-2}, .rest = {.lr = 1e-3}};
  equals_one_rank<ZeRO1, FSDP>(
      recipe<Counted>({}, 1, both, Precision<BF16Weights>{}, Checkpoint<Full>{}));
}
TEST_CASE("shard optimizers: Muon, a clip that is not active") {
  equals_one_rank<FSDP, HSDP<2>>(
      recipe<Counted>({.norms = 1e-6}, 1, muon, ClipGradNorm{.max_norm = 1e6}));
}
TEST_CASE("shard optimizers: AdamW8bit, blocks in several slices") {
  equals_one_rank<ZeRO1, ZeRO2, FSDP, HSDP<2>>(recipe<Counted>({}, 1, eight_bits));
}
TEST_CASE(
    "shard optimizers: numbers in the state, NAdam's and ASGD's, a rejected step under FP16") {
  const Combined<NAdam, ASGD> both{.match = named("*.weight"), .first = {.lr = 1e-2}};
  equals_one_rank<ZeRO1, FSDP>(recipe<Counted>(
      {}, 1, both, Precision<FP16>{.init_scale = 0x1p40, .backoff_factor = 0x1p-30}));
}
TEST_CASE("shard optimizers: LAMB, a sum over ranks for its norms") {
  equals_one_rank<ZeRO2, FSDP>(
      recipe<Counted>({.bits = false, .weights = 1e-5}, 1, LAMB{.lr = 1e-2}));
}
TEST_CASE("shard optimizers: Adafactor, groups, a late count, a clip that is active") {
  const Adafactor adafactor{.weight_decay = 0.1, .groups = {no_decay()}};
  equals_one_rank<ZeRO1, ZeRO2, FSDP, HSDP<2>>(
      recipe<Late>({.bits = false, .norms = 1e-5, .weights = 1e-5}, 1, adafactor,
                   ClipGradNorm{.max_norm = 0.05}));
}
TEST_CASE("shard optimizers: BF16True rounds each element as one rank does") {
  const AdamW adamw{.lr = 1e-2, .weight_decay = 0.1, .groups = {no_decay()}};
  equals_one_rank<ZeRO1, ZeRO2, FSDP>(recipe<Counted>({}, 1, adamw, Precision<BF16True>{}));
}
TEST_CASE("shard optimizers: BF16True, AdamW8bit, EMA") {
  equals_one_rank<ZeRO1, FSDP>(
      recipe<Counted>({}, 1, eight_bits, Precision<BF16True>{.seed = 5}, EMA{.decay = 0.5}));
}
TEST_CASE("shard optimizers: BF16True, Muon") {
  equals_one_rank<FSDP>(recipe<Counted>({}, 1, muon, Precision<BF16True>{}));
}
/// Rounded values differ in the last bits, so some elements become the other neighbour.
TEST_CASE("shard optimizers: BF16True, Adafactor") {
  equals_one_rank<ZeRO2>(recipe<Counted>({.bits = false, .weights = 5e-3}, 1, Adafactor{.lr = 0.1},
                                         Precision<BF16True>{}));
}

}  // namespace test::ranks::shard_optimizers
