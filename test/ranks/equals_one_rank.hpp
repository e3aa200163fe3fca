#pragma once
// Training on several ranks equals training on one with as many microbatches.
#include "groups.hpp"

namespace test::ranks {

template <class How, class R>
void check(const R& recipe, Shard<How> policy = {}) {
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  for (std::int64_t ranks : {1, 2, 3}) {
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
