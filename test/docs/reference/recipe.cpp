// Examples of the reference: axes, and what leaves things as they are.
#include "../classes.hpp"

namespace test::reference_recipe {

using namespace policies;

// example: axis::capture, axis::shard, axis::offload, axis::checkpoint, axis::precision
// A recipe that names no policy of an axis has its default.
static_assert(std::is_same_v<axis::capture::default_policy, Capture<Off>>);
static_assert(std::is_same_v<axis::shard::default_policy, Shard<Off>>);
static_assert(std::is_same_v<axis::offload::default_policy, Offload<Off>>);
static_assert(std::is_same_v<axis::checkpoint::default_policy, Checkpoint<Off>>);
static_assert(std::is_same_v<axis::precision::default_policy, Precision<FP32>>);
// end
// example: axis::accumulate, axis::objective, axis::optimizer
static_assert(std::is_same_v<axis::accumulate::default_policy, Accumulate<1>>);
static_assert(std::is_same_v<axis::objective::default_policy, Without<axis::objective>>);
static_assert(std::is_same_v<axis::optimizer::default_policy, AdamW>);
// end
// example: axis::schedule, axis::average, axis::freeze, axis::device, axis::layout
static_assert(std::is_same_v<axis::schedule::default_policy, ConstantLR>);
static_assert(std::is_same_v<axis::average::default_policy, Without<axis::average>>);
static_assert(std::is_same_v<axis::freeze::default_policy, Freeze<Off>>);
static_assert(std::is_same_v<axis::device::default_policy, Without<axis::device>>);
static_assert(std::is_same_v<axis::layout::default_policy, Layout<Off>>);
// end
// example: axis::clip, axis::observe
static_assert(axis::clip::many && axis::observe::many);  // they take several policies
using Recipe = Trainer<nn::Sequential, CrossEntropyLoss, ClipGradValue, ClipGradNorm>;
// end

// example: axis::own
struct constraint : axis::own {};  // an axis of your own, asked after all others

struct BoundedNorm {  // its policy
  using axis = constraint;
  double bound = 1;
};
// end

}  // namespace test::reference_recipe

template <>
struct ikebana::Mechanism<test::reference_recipe::BoundedNorm> : ikebana::Hooks {
  test::reference_recipe::BoundedNorm values;
  explicit Mechanism(test::reference_recipe::BoundedNorm v) : values(v) {}
};

namespace test::reference_recipe {

TEST_CASE("reference: recipes that say what they leave out") {
  auto model = net();
  const Rows batch = classes(1)[0];
  // example: Without, Checkpoint<Off>, Offload<Off>, Freeze<Off>, Layout<Off>, Shard<Off>
  Trainer all{
      model,         CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Checkpoint<Off>{},    Offload<Off>{},
      Freeze<Off>{}, Layout<Off>{},      Shard<Off>{},      Without<axis::clip>{}};
  using Plain = Trainer<nn::Sequential, CrossEntropyLoss, AdamW>;
  static_assert(std::is_same_v<decltype(all)::Recipe, Plain::Recipe>);  // the same trainer
  // end
  CHECK(all.step(batch).loss() > 0);
}

TEST_CASE("reference: axes without a policy yet") {
  const Rows batch = classes(1)[0];
  // example: Capture, Capture<Off>
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Capture<Off>{}};
  // end
  CHECK(trainer.step(batch).loss() > 0);
}

TEST_CASE("reference: counts that come as a value") {
  const Rows batch = classes(1)[0];
  std::int64_t n = 3;
  // example: Dynamic
  Trainer trainer{net(), CrossEntropyLoss{}, Accumulate<Dynamic>{.microbatches = n}};
  // end
  CHECK(trainer.step(batch).microbatches == 3);

  // example: Fit
  Trainer fits{net(), CrossEntropyLoss{}, Accumulate<Fit<>>{.max = 8}};  // or Accumulate<Fit<8>>
  // end
  CHECK(fits.step(batch).microbatches == 1);
}

TEST_CASE("reference: an axis of your own") {
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}, BoundedNorm{.bound = 2}};
  CHECK(trainer.get<BoundedNorm>().bound == 2);
}

}  // namespace test::reference_recipe
