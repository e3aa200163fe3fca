// The policies on shard: training on several ranks equals training on one with as many
// microbatches. The rows cover each pair of a policy and a choice on another axis.
#include "test.hpp"

#include "equals_one_rank.hpp"

using namespace ikebana;

namespace test::ranks::shard_equals_one_rank {

const AdamW adamw{.lr = 1e-2, .weight_decay = 0.1, .groups = {no_decay()}};

TEST_CASE("shard: groups, frozen weights, a late count, Checkpoint<Full>, the norm") {
  equals_one_rank<DDP, ZeRO1, FSDP, HSDP<2>>(
      recipe<Late>({.norms = 1e-6}, 1, adamw, GradNorm{}, Checkpoint<Full>{},
                   Freeze<>{.match = named("*.still.weight")}));
}
TEST_CASE("shard: BF16, Checkpoint<Selective>, EMA") {
  equals_one_rank<ZeRO2, FSDP, HSDP<2>>(
      recipe<Counted>({}, 1, adamw, Precision<BF16>{}, Checkpoint<Selective>{}, EMA{.decay = 0.5}));
}
TEST_CASE("shard: BF16Weights, Checkpoint<Segments>") {
  const auto row = recipe<Counted>({}, 1, SGD{.lr = 1e-2, .momentum = 0.9},
                                   Precision<BF16Weights>{}, Checkpoint<Segments<2>>{});
  equals_one_rank<DDP, ZeRO1, ZeRO2, FSDP, HSDP<2>>(row);
}
TEST_CASE("shard: FP16, Lion, a schedule") {
  const auto row =
      recipe<Counted>({}, 1, Lion{.lr = 1e-3}, Precision<FP16>{}, CosineAnnealingLR{.T_max = 10});
  equals_one_rank<DDP, ZeRO1, FSDP, HSDP<2>>(row);
}
TEST_CASE("shard: Adam, Checkpoint<Every>, a clip that is not active") {
  const auto row = recipe<Late>({.norms = 1e-6}, 1, Adam{.lr = 1e-2, .amsgrad = true},
                                Checkpoint<Every<2>>{}, ClipGradNorm{.max_norm = 1e6});
  equals_one_rank<DDP, ZeRO2, FSDP, HSDP<2>>(row);
}
TEST_CASE("shard: clipping, and several microbatches on each rank") {
  AdamW gentle = adamw;
  gentle.lr = 1e-3;
  equals_one_rank<ZeRO1, ZeRO2, FSDP>(
      recipe<Counted>({.bits = false, .norms = 1e-6}, 2, gentle, ClipGradNorm{.max_norm = 0.05}));
}
TEST_CASE("shard: two optimizers") {
  const auto row = recipe<Counted>(
      {}, 1,
      Combined<SGD, AdamW>{.match = named("*.weight"), .first = {.lr = 1e-2}, .rest = adamw});
  equals_one_rank<ZeRO1, FSDP, HSDP<3>>(row);
}
TEST_CASE("shard: Muon, on whole parameters") {
  equals_one_rank<DDP, HSDP<1>>(recipe<Counted>({}, 1, Muon{.lr = 1e-2}));
}
/// Checks two trainers of a process, which take turns, as a generator and its critic do.
template <class How>
void check_two() {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const auto all = batches(4, 4);
  auto take_turns = [&](auto& first, auto& second, auto&& cut) {
    for (const Rows& batch : all) first.step(cut(batch)), second.step(cut(batch));
    std::vector<at::Tensor> weights = whole(first);
    for (at::Tensor& p : whole(second)) weights.push_back(std::move(p));
    return weights;
  };
  Trainer one{make<Counted>(), adamw, Accumulate<2>{}},
      other{make<Counted>(), adamw, Accumulate<2>{}};
  other.step(all[3]);
  const auto expected = take_turns(one, other, [](const Rows& batch) { return batch; });
  std::vector<Counted> models{make<Counted>(), make<Counted>(), make<Counted>(), make<Counted>()};
  on_groups(2, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    auto mine = [&](const Rows& batch) { return part(batch, group.rank(), 2); };
    const Shard<How> policy{.process_group = group};
    Trainer a{models[r], adamw, policy}, b{models[r + 2], adamw, policy};
    b.step(mine(all[3]));
    CHECK(same_bits(take_turns(a, b, mine), expected));
  });
}
TEST_CASE("shard: two trainers of a process take turns") {
  check_two<DDP>(), check_two<ZeRO1>(), check_two<ZeRO2>(), check_two<FSDP>();
}
TEST_CASE("shard: a param_dtype that is not Precision's is refused") {
  on_groups(2, [&](const ProcessGroup& group) {
    Trainer trainer{make<Counted>(), adamw,
                    Shard<FSDP>{.process_group = group, .param_dtype = at::kBFloat16}};
    const std::string text =
        message_of([&] { trainer.step(part(batches(1, 4)[0], group.rank(), 2)); });
    CHECK_MESSAGE(contains(text, "param_dtype is BFloat16"), text);
  });
}
TEST_CASE("shard: units that stay gathered, no prefetch, one reduction a step") {
  const auto row = recipe<Counted>({}, 1, Adagrad{.lr = 1e-2});
  check<FSDP>(row, {.reshard_after_forward = false, .forward_prefetch = false});
  check<FSDP>(row, {.reshard_after_forward = true, .backward_prefetch = false});
  check<FSDP>(row, {.reduce_each_microbatch = false});
  check<ZeRO2>(row, {.reduce_each_microbatch = false});
  check<HSDP<2>>(row, {.reshard_after_forward = false, .forward_prefetch = false});
  check<HSDP<2>>(row, {.reduce_each_microbatch = false, .backward_prefetch = false});
}

}  // namespace test::ranks::shard_equals_one_rank
