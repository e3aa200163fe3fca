// Tests index_select: the rows of a batch in any order, through every tensor inside.
#include "compare.hpp"

using namespace ikebana;

namespace test::selecting {

struct Rollout {
  at::Tensor seen;
  std::pair<std::vector<at::Tensor>, std::optional<at::Tensor>> kept;
  at::Tensor scale;
  std::string name;
};
struct TimeFirst {
  static constexpr int batch_dim = 1;
  at::Tensor x, y;
};

std::vector<at::Tensor> tensors(Rollout r) {
  return {r.seen, r.kept.first[0], r.kept.first[1], *r.kept.second, r.scale};
}

TEST_CASE("index_select: every tensor inside, in the order requested, scalars and others shared") {
  Rollout all{random({6, 2}),
              {{random({6}, 2), random({6, 3, 2}, 3)}, random({6, 1}, 4)},
              at::ones({}),
              "name"};
  CHECK(same_bits(tensors(index_select(all, at::arange(6))), tensors(all)));
  CHECK(same_bits(tensors(index_select(all, at::arange(2, 5))), tensors(narrow(all, 2, 3))));
  auto index = at::tensor({5, 0, 5}, at::kLong);
  Rollout picked = index_select(all, index);
  CHECK(same_bits(picked.seen, at::stack({all.seen[5], all.seen[0], all.seen[5]})));
  CHECK(same_bits(*picked.kept.second, all.kept.second->index({index})));
  CHECK(picked.scale.is_same(all.scale));
  CHECK(picked.name == "name");
  picked.seen.zero_();
  CHECK(same_bits(all.seen, random({6, 2})));  // copies, not views
}

TEST_CASE("index_select: another dimension, and tensors of different sizes") {
  TimeFirst songs{random({3, 4}), random({2, 4, 2}, 2)};
  auto index = at::tensor({3, 1}, at::kLong);
  CHECK(same_bits(index_select(songs, index).y, songs.y.index_select(1, index)));
  CHECK_THROWS_AS(index_select(std::pair(random({3, 1}), random({4, 1})), index), BadBatch);
}

}  // namespace test::selecting
