#pragma once
// Trains with modules::SyncBatchNorm on several ranks, and on one rank with the joined batch.
#include "sync_nets.hpp"

namespace test::ranks::sync_training {

using namespace sync_nets;

/// Steps of several microbatches; of each the rows of every rank.
using Steps = std::vector<std::vector<std::vector<Rows>>>;
inline Rows join(const std::vector<Rows>& parts) {
  std::vector<at::Tensor> input, target;
  for (const Rows& one : parts) input.push_back(one.input), target.push_back(one.target);
  return {at::cat(input), at::cat(target)};
}
/// In each step a rank has another number of rows, and some ranks fewer microbatches than others.
inline Steps steps_of(std::int64_t ranks, at::ScalarType dtype) {
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
  for (const auto& microbatches : steps)
    all.losses.push_back(trainer.step(microbatches).mean().cpu());
  all.weights = whole(trainer);
  for (const auto& b : trainer.model()->buffers()) all.buffers.push_back(b.cpu().clone());
  all.evaluated = {at::scalar_tensor(trainer.evaluate(steps[0]).loss, at::kDouble)};
  return all;
}
/// Returns what must be equal on all ranks.
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
inline Trained on_one_rank(std::int64_t ranks) {
  std::vector<std::vector<Rows>> joined_steps;
  for (const auto& step : steps_of(ranks, at::kDouble)) {
    auto& own = joined_steps.emplace_back();
    for (const auto& parts : step) own.push_back(join(parts));
  }
  Trainer trainer{new_net<BatchNorm1d>(), optimizer};
  return trained_by(trainer, joined_steps);
}
inline void check_close(const Trained& got, const Trained& expected, double within) {
  CHECK(worst_relative(got.losses, expected.losses) < within);
  CHECK(worst_relative(got.weights, expected.weights) < within);
  REQUIRE(got.buffers.size() == expected.buffers.size());
  for (std::size_t i = 0; i < got.buffers.size(); ++i)
    CHECK(worst_relative({got.buffers[i]}, {expected.buffers[i]}) < within);
  CHECK(worst_relative(got.evaluated, expected.evaluated) < within);
}

}  // namespace test::ranks::sync_training
