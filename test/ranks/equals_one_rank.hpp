#pragma once
// Training on several ranks equals training on one with as many microbatches.
#include "groups.hpp"

namespace test::ranks {

/// The numbers of ranks that a policy is tested on. Three copies: one that neither begins nor ends.
template <class How>
inline const std::vector<std::int64_t> worlds{1, 2, 3};
template <std::int64_t N>
inline const std::vector<std::int64_t> worlds<HSDP<N>>{N, 2 * N, 3 * N};
template <>
inline const std::vector<std::int64_t> worlds<HSDP<3>>{6};

template <class How, class R>
void check(const R& recipe, Shard<How> policy = {}) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  for (std::int64_t ranks : worlds<How>) {
    Bounds bounds = recipe.bounds;
    if (ranks == 1) bounds = {.bits = true, .norms = recipe.bounds.norms};
    recipe.check(ranks, shards(policy), recipe.alone(ranks), bounds);
  }
}
template <class... Hows, class R>
void equals_one_rank(const R& recipe) {
  (check<Hows>(recipe), ...);
}

}  // namespace test::ranks
