// Tests that clamped gradients, skipped spikes, an equal average and batch norm's statistics equal
// the ones on one rank.
#include "test.hpp"

#include "equals_one_rank.hpp"

using namespace ikebana;

namespace test::ranks::spikes {

const AdamW adamw{.lr = 1e-2, .weight_decay = 0.1, .groups = {no_decay()}};
const SkipSpikes soon{.window = 2, .zscore = 0.5};

TEST_CASE("spikes: ranks clamp, skip and average as one rank does") {
  const auto row = recipe<Counted>({.norms = 1e-6}, 1, adamw, ClipGradValue{.clip_value = 1e-2},
                                   soon, SWA{.every_steps = 2});
  equals_one_rank<DDP, ZeRO2, FSDP, HSDP<2>>(row);
}

/// Returns which steps were skipped.
template <class Trainer>
std::vector<std::int64_t> skipped_by(Trainer& trainer, const std::vector<Rows>& batches) {
  for (const Rows& batch : batches) trainer.step(batch);
  std::vector<std::int64_t> steps;
  for (const Spike& spike : trainer.template mechanism<SkipSpikes>().skips())
    steps.push_back(spike.step);
  return steps;
}
TEST_CASE("spikes: all ranks skip the steps that one rank skips") {
  auto all = batches(12, 4);
  for (std::size_t i : {5, 9}) all[i].input = all[i].input * 30;  // the jump of one rank's rows
  const SkipSpikes four{.window = 4, .zscore = 4};
  Trainer alone{make<Counted>(), adamw, four};
  const auto expected = skipped_by(alone, all);
  CHECK(std::ssize(expected) > 1);
  CHECK(std::ssize(expected) < 8);
  auto check = [&]<class How>(Shard<How> policy) {
    std::vector<Counted> models;
    for (int r = 0; r < 2; ++r) models.push_back(make<Counted>());
    shards(policy)(2, [&](std::int64_t rank, auto shard) {
      Trainer trainer{models[static_cast<std::size_t>(rank)], adamw, four, shard};
      std::vector<Rows> mine;
      for (const Rows& batch : all) mine.push_back(part(batch, rank, 2));
      CHECK(skipped_by(trainer, mine) == expected);
    });
  };
  check(Shard<DDP>()), check(Shard<FSDP>());
}

struct NormedImpl : torch::nn::Module {
  using units = Units<Inner>;
  torch::nn::Linear in = register_module("in", torch::nn::Linear(5, width));
  Inner inner = register_module("inner", Inner());
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(width));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(width, 3));
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor logits = head(norm(run(inner, in(batch.input))));
    return {at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum),
            batch.target.numel()};
  }
};
TORCH_MODULE(Normed);
std::vector<at::Tensor> statistics_of(Normed& model) {
  return {model->norm->running_mean.clone(), model->norm->running_var.clone(),
          model->norm->num_batches_tracked.clone()};
}
TEST_CASE("spikes: update_bn takes the mean over the batches of all ranks") {
  const auto all = batches(6, 4);
  const SWA swa{.every_steps = 2};
  auto statistics = [](auto& trainer) {
    return trainer.with_full_weights([](auto& model) { return statistics_of(model); },
                                     {.averaged = true});
  };
  Trainer alone{make<Normed>(), SGD{.lr = 0}, swa};
  alone.step(all[0]), alone.step(all[1]);
  alone.update_bn(all);
  const auto expected = statistics(alone);
  auto check = [&]<class How>(Shard<How> policy, std::int64_t of_first) {
    CAPTURE(of_first);
    std::vector<Normed> models;
    for (int r = 0; r < 2; ++r) models.push_back(make<Normed>());
    shards(policy)(2, [&](std::int64_t rank, auto shard) {
      Trainer trainer{models[static_cast<std::size_t>(rank)], SGD{.lr = 0}, swa, shard};
      trainer.step(all[0]), trainer.step(all[1]);
      const auto middle = all.begin() + of_first;
      trainer.update_bn(rank == 0 ? std::vector<Rows>(all.begin(), middle)
                                  : std::vector<Rows>(middle, all.end()));
      const auto got = statistics(trainer);
      CHECK(worst_relative({got[0], got[1]}, {expected[0], expected[1]}) < 1e-6);
      CHECK(same_bits(got[2], expected[2]));
    });
  };
  check(Shard<DDP>(), 3), check(Shard<FSDP>(), 3);
  check(Shard<DDP>(), 2), check(Shard<DDP>(), 0);
}
TEST_CASE("spikes: update_bn over slices refuses different numbers of batches") {
  const auto all = batches(3, 4);
  std::vector<Normed> models;
  for (int r = 0; r < 2; ++r) models.push_back(make<Normed>());
  shards(Shard<FSDP>())(2, [&](std::int64_t rank, auto shard) {
    Trainer trainer{models[static_cast<std::size_t>(rank)], SWA{}, shard};
    trainer.step(all[0]);
    const auto mine = std::vector<Rows>(all.begin(), all.end() - rank);
    CHECK(contains(message_of<Error>([&] { trainer.update_bn(mine); }),
                   "the same number of batches"));
    CHECK_NOTHROW(trainer.update_bn(all));
  });
}

}  // namespace test::ranks::spikes
