#pragma once
// Trains the same on several ranks and on one.
#include "nets.hpp"

namespace test::ranks {

/// Losses of all steps, then the weights.
struct Result {
  std::vector<at::Tensor> losses, weights;
};
inline void check_close(const Result& got, const Result& expected) {
  CHECK(worst_relative(got.losses, expected.losses) < 1e-6);
  CHECK(worst_relative(got.weights, expected.weights) < 1e-6);
}
inline void check_bits(const Result& got, const Result& expected) {
  CHECK(same_bits(got.losses, expected.losses));
  CHECK(same_bits(got.weights, expected.weights));
}

/// Calls `f(trainer, rank)` on each of the ranks. Returns their results, which are the same.
template <Kind K, class Model, class F, class... Ps>
Result on_ranks(std::int64_t ranks, const F& f, Ps... policies) {
  CAPTURE(K);
  CAPTURE(ranks);
  std::vector<Model> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Model>());
  std::vector<Result> all(models.size());
  on_threads(ranks, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    ikebana::Trainer trainer{models[r], policies..., Double<K>{.wire = wire}};
    all[r].losses = f(trainer, wire->rank());
    all[r].weights = whole(trainer);
  });
  for (const Result& one : all) check_bits(one, all[0]);
  return all[0];
}
template <class Model, class F, class... Ps>
Result on_one(const F& f, Ps... policies) {
  ikebana::Trainer trainer{Model(make<Model>()), policies...};
  Result result;
  result.losses = f(trainer, 0);
  result.weights = whole(trainer);
  return result;
}
inline const ikebana::AdamW slow{.lr = 1e-3, .weight_decay = 0.1, .groups = {ikebana::no_decay()}};

}  // namespace test::ranks
