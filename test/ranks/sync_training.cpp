// Ranks that train with modules::SyncBatchNorm train as one rank on the joined batch.
#include "test.hpp"

#include "sync_nets.hpp"

namespace test::ranks::sync_training {

using namespace sync_nets;

/// Steps of several microbatches; of each the rows of every rank.
using Steps = std::vector<std::vector<std::vector<Rows>>>;
Rows join(const std::vector<Rows>& parts) {
  std::vector<at::Tensor> input, target;
  for (const Rows& one : parts) input.push_back(one.input), target.push_back(one.target);
  return {at::cat(input), at::cat(target)};
}
/// In each step a rank has another number of rows, and some ranks fewer microbatches than others.
Steps steps_of(std::int64_t ranks, at::ScalarType dtype) {
  std::vector<Rows> all = batches(6, 12);
  for (Rows& rows : all) rows.input = rows.input.to(dtype);
  Steps steps;
  for (std::size_t s = 0; s < 3; ++s) {
    auto& step = steps.emplace_back();
    for (std::size_t m = 0; m < 2; ++m) {
      auto& parts = step.emplace_back();
      std::int64_t first = 0;
      for (std::int64_t r = 0; r < ranks; ++r) {
        const bool is_left_out =
            ranks > 1 && r == static_cast<std::int64_t>(s) % ranks && (m == 1 || s == 2);
        const std::int64_t rows = is_left_out ? 0 : 2 + r;
        parts.push_back(rows_of(all[2 * s + m], first, rows));
        first += rows;
      }
    }
  }
  return steps;
}
struct Trained {
  std::vector<at::Tensor> losses, weights, buffers, evaluated;
};
template <class T>
Trained trained_by(T& trainer, const std::vector<std::vector<Rows>>& steps) {
  Trained all;
  for (const auto& microbatches : steps) all.losses.push_back(trainer.step(microbatches).mean());
  all.weights = whole(trainer);
  for (const auto& b : trainer.model()->buffers()) all.buffers.push_back(b.clone());
  all.evaluated = {at::scalar_tensor(trainer.evaluate(steps[0]).loss, at::kDouble)};
  return all;
}
/// What all ranks have alike.
template <class How, class... Ps>
Trained on_all(std::int64_t ranks, at::ScalarType dtype, Ps... policies) {
  const Steps steps = steps_of(ranks, dtype);
  std::vector<SyncNet> models;
  std::vector<Trained> all(static_cast<std::size_t>(ranks));
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(new_net<SyncBatchNorm>(dtype));
  on_groups(ranks, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    std::vector<std::vector<Rows>> mine;
    for (const auto& step : steps) {
      auto& own = mine.emplace_back();
      for (const auto& parts : step)
        if (parts[r].input.size(0) > 0 || own.empty()) own.push_back(parts[r]);
    }
    Trainer trainer{models[r], optimizer, policies..., Shard<How>{.process_group = group}};
    all[r] = trained_by(trainer, mine);
  });
  for (const Trained& one : all) {
    CHECK(same_bits(one.losses, all[0].losses));
    CHECK(same_bits(one.weights, all[0].weights));
    CHECK(same_bits(one.buffers, all[0].buffers));
  }
  return all[0];
}
Trained on_one_rank(std::int64_t ranks) {
  std::vector<std::vector<Rows>> joined_steps;
  for (const auto& step : steps_of(ranks, at::kDouble)) {
    auto& own = joined_steps.emplace_back();
    for (const auto& parts : step) own.push_back(join(parts));
  }
  Trainer trainer{new_net<BatchNorm1d>(), optimizer};
  return trained_by(trainer, joined_steps);
}
void check_close(const Trained& got, const Trained& expected, double within) {
  CHECK(worst_relative(got.losses, expected.losses) < within);
  CHECK(worst_relative(got.weights, expected.weights) < within);
  REQUIRE(got.buffers.size() == expected.buffers.size());
  for (std::size_t i = 0; i < got.buffers.size(); ++i)
    CHECK(worst_relative({got.buffers[i]}, {expected.buffers[i]}) < within);
  CHECK(worst_relative(got.evaluated, expected.evaluated) < within);
}
TEST_CASE(
    "SyncBatchNorm: ranks train as one rank on the joined batch, also where one has no rows") {
  for (std::int64_t ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    const Trained expected = on_one_rank(ranks);
    auto check = [&]<class How>(std::type_identity<How>) {
      const Trained plain = on_all<How>(ranks, at::kDouble),
                    again = on_all<How>(ranks, at::kDouble, Checkpoint<Full>{});
      check_close(plain, expected, 1e-9);
      CHECK(same_bits(again.losses, plain.losses));
      CHECK(same_bits(again.weights, plain.weights));
      CHECK(same_bits(again.buffers, plain.buffers));
    };
    check(std::type_identity<DDP>());
    check(std::type_identity<FSDP>());
  }
}
TEST_CASE("SyncBatchNorm: a recompute of a part of a unit, or of several, makes the same bits") {
  const Trained expected = on_all<FSDP>(2, at::kFloat);
  check_close(expected, on_one_rank(2), 1e-4);
  for (const Trained& one : {on_all<FSDP>(2, at::kFloat, Checkpoint<Selective>{}),
                             on_all<FSDP>(2, at::kFloat, Checkpoint<Segments<1>>{})}) {
    CHECK(same_bits(one.losses, expected.losses));
    CHECK(same_bits(one.weights, expected.weights));
    CHECK(same_bits(one.buffers, expected.buffers));
  }
}
TEST_CASE("SyncBatchNorm: under autocast its statistics are in FP32") {
  const Trained got = on_all<DDP>(2, at::kFloat, Precision<BF16>{});
  for (const at::Tensor& buffer : got.buffers)
    CHECK((buffer.scalar_type() == at::kFloat || buffer.dim() == 0));
  check_close(got, on_one_rank(2), 0.05);
}

}  // namespace test::ranks::sync_training
