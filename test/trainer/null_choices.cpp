// Tests that a step that calls all mechanisms leaves out the mechanisms of null choices, and no
// others.
#include "test.hpp"

#include "nest.hpp"

using namespace ikebana;

namespace test::null_choices {

/// A policy of a user's own that leaves the precision as it is.
template <class>
struct OwnPrecision;
template <>
struct OwnPrecision<Off> {
  using axis = ikebana::axis::precision;
};

template <class... Policies>
using With = Mechanisms<compose_t<AdamW, Policies...>>;
template <class Recipe, class List, class... Active>
constexpr bool active_are =
    std::is_same_v<typename Recipe::template active<List>, AxisList<Active...>>;

static_assert(active_are<With<>, WrappingOrder, axis::precision, axis::accumulate, axis::objective,
                         axis::optimizer, axis::schedule>);
static_assert(active_are<With<>, UnitWrappers, axis::precision>);
static_assert(active_are<With<Checkpoint<Full>>, UnitWrappers, wrapper::frames, axis::checkpoint,
                         axis::precision>);
static_assert(active_are<With<OwnPrecision<Off>>, StepWrappers, axis::accumulate>);
// The mechanism of a spy derives from the null one, and is called.
static_assert(active_are<With<Spy<axis::shard>>, UnitWrappers, wrapper::gather, axis::shard,
                         axis::precision>);

TEST_CASE("null choices: a precision of a user's own that is null gives the bits of FP32") {
  Trainer plain{nest(), AdamW{}};
  Trainer own{nest(), AdamW{}, OwnPrecision<Off>{}};
  for (int i = 0; i < 3; ++i)
    CHECK(same_bits(plain.step(rows_of(i)).mean(), own.step(rows_of(i)).mean()));
  CHECK(same_bits(plain.model()->parameters(), own.model()->parameters()));
}

TEST_CASE("null choices: they are found and described as every other policy") {
  Trainer trainer{nest(), AdamW{}};
  CHECK(&trainer.get<Checkpoint<Off>>() == &trainer.mechanism<Checkpoint<Off>>().values);
  CHECK(&trainer.get<Without<axis::clip>>() == &trainer.mechanism<Without<axis::clip>>().values);
  const std::string text = trainer.describe();
  for (const char* policy :
       {"Capture<Off>", "Shard<Off>", "Offload<Off>", "Checkpoint<Off>", "Freeze<Off>"})
    CHECK(text.find(policy) != std::string::npos);
}

}  // namespace test::null_choices
