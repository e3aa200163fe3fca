#pragma once
// Lists of batches, of which each rank has one.
#include "nets.hpp"

namespace test::ranks {

/// Calls `f(trainer, rank)` on each of the ranks, which then have the same weights; returns these.
template <Kind K, class Model = Counted, class F>
std::vector<at::Tensor> on_ranks(std::int64_t ranks, const F& f) {
  CAPTURE(K);
  std::vector<Model> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Model>());
  std::vector<std::vector<at::Tensor>> weights(models.size());
  on_threads(ranks, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    ikebana::Trainer trainer{models[r], ikebana::AdamW{.lr = 1e-3}, Double<K>{.wire = wire}};
    f(trainer, wire->rank());
    weights[r] = whole(trainer);
  });
  for (const auto& one : weights) CHECK(same_bits(one, weights[0]));
  return weights[0];
}
/// The batches of each rank.
using Lists = std::vector<std::vector<Rows>>;
inline Lists lists(const std::vector<std::size_t>& counts) {
  const auto all = batches(9, 3);
  Lists lists;
  std::size_t next = 0;
  for (std::size_t count : counts) {
    auto& list = lists.emplace_back();
    for (std::size_t i = 0; i < count; ++i) list.push_back(all.at(next++));
  }
  return lists;
}

}  // namespace test::ranks
