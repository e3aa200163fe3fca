// What the grammar promises, found out while this compiles. LibTorch is not in sight.
#include <algorithm>
#include <array>
#include <cstddef>
#include <ikebana/checks/policies.hpp>
#include <memory>
#include <tuple>
#include <utility>

namespace ikebana {
template <class Recipe>
struct Mechanisms;
}

using namespace ikebana;

template <class... Words>
using words = std::tuple<Words...>;
template <class A, class B>
constexpr bool same = std::is_same_v<A, B>;
template <class Written, class Expected>
constexpr bool answers = same<axis_of_t<Written>, Expected>;

struct Model {};
struct OwnClip {
  using axis = ikebana::axis::clip;
};
struct OwnObserve {
  using axis = ikebana::axis::observe;
  double every = 1;
};
struct Functor {
  int operator()(int, int, int) const;
};
struct GenericFunctor {
  template <class Run, class Model, class Batch>
  int operator()(Run&, Model&, const Batch&) const;
  int operator()(int);
};
struct CallableClip : Functor {
  using axis = ikebana::axis::clip;
};
struct Holder : Functor {
  using ContainedType = Model;
};
struct NotCallable {
  int call(int);
};
struct Declared;
using Lambda = decltype([](auto& run, auto&, const auto&) { return run; });

// Every word answers its axis.
static_assert(answers<Precision<FP32>, axis::precision> &&
              answers<Precision<TF32>, axis::precision>);
static_assert(answers<Precision<BF16>, axis::precision> &&
              answers<Precision<FP16>, axis::precision>);
static_assert(answers<Checkpoint<Full>, axis::checkpoint> &&
              answers<Checkpoint<Off>, axis::checkpoint>);
static_assert(answers<Checkpoint<Selective>, axis::checkpoint> &&
              answers<Checkpoint<Every<3>>, axis::checkpoint> &&
              answers<Checkpoint<Segments<>>, axis::checkpoint> &&
              answers<Checkpoint<Only<Model>>, axis::checkpoint>);
static_assert(answers<Accumulate<4>, axis::accumulate> && answers<Accumulate<>, axis::accumulate>);
static_assert(answers<Offload<Off>, axis::offload> && answers<Shard<Off>, axis::shard>);
static_assert(answers<Capture<Off>, axis::capture> && answers<Quantize<Off>, axis::quantize>);
static_assert(answers<Prune<Off>, axis::prune> && answers<Freeze<Off>, axis::freeze>);
static_assert(answers<AdamW, axis::optimizer> && answers<Adam, axis::optimizer>);
static_assert(answers<SGD, axis::optimizer> && answers<ConstantLR, axis::schedule>);
static_assert(answers<LinearLR, axis::schedule> && answers<CosineAnnealingLR, axis::schedule>);
static_assert(answers<StepLR, axis::schedule> && answers<WarmupStableDecayLR, axis::schedule>);
static_assert(answers<LambdaLR, axis::schedule> && answers<ReduceLROnPlateau, axis::schedule>);
static_assert(answers<BCEWithLogitsLoss, axis::objective> && answers<KLDivLoss, axis::objective>);
static_assert(answers<EMA, axis::average> && answers<Freeze<>, axis::freeze>);
static_assert(answers<Freeze<Model, Declared>, axis::freeze>);
static_assert(answers<CrossEntropyLoss, axis::objective> && answers<MSELoss, axis::objective>);
static_assert(answers<ClipGradNorm, axis::clip> && answers<Without<axis::clip>, axis::clip>);
static_assert(answers<Observe<Memory>, axis::observe> && answers<On, axis::device>);
static_assert(answers<Without<axis::average>, axis::average>);

// So does a policy of the user's own; any callable is an objective; nothing else is a policy.
static_assert(answers<OwnClip, axis::clip> && answers<CallableClip, axis::clip>);
static_assert(answers<Functor, axis::objective> && answers<GenericFunctor, axis::objective>);
static_assert(answers<Lambda, axis::objective> && answers<int (*)(int, int), axis::objective>);
static_assert(answers<int, void> && answers<Model, void> && answers<Declared, void>);
static_assert(answers<Holder, void> && answers<NotCallable, void>);
static_assert(answers<BF16, void> && answers<Full, void> && answers<Memory, void>);
static_assert(answers<const AdamW, void> && answers<AdamW&, void> && answers<AdamW*, void>);

// What is left out has a default.
static_assert(
    same<compose_t<>, Composed<Many<>, Capture<Off>, Shard<Off>, Offload<Off>, Checkpoint<Off>,
                               Precision<FP32>, Prune<Off>, Quantize<Off>, Accumulate<1>,
                               Without<axis::objective>, Without<axis::clip>, AdamW, ConstantLR,
                               Without<axis::average>, Freeze<Off>, Without<axis::device>>>);
static_assert(same<compose_t<AdamW, Accumulate<1>, Precision<FP32>>, compose_t<>>);

// Any order in, one order out.
using Five = words<AdamW, Precision<BF16>, Checkpoint<Full>, Accumulate<4>, OwnClip>;
using Sorted =
    Composed<Many<>, Capture<Off>, Shard<Off>, Offload<Off>, Checkpoint<Full>, Precision<BF16>,
             Prune<Off>, Quantize<Off>, Accumulate<4>, Without<axis::objective>, OwnClip, AdamW,
             ConstantLR, Without<axis::average>, Freeze<Off>, Without<axis::device>>;
constexpr auto orders = [] {
  std::array<std::array<std::size_t, 5>, 120> all{};
  std::array<std::size_t, 5> next{0, 1, 2, 3, 4};
  for (auto& order : all) {
    order = next;
    std::next_permutation(next.begin(), next.end());
  }
  return all;
}();
static_assert(orders.front() == std::array<std::size_t, 5>{0, 1, 2, 3, 4});
static_assert(orders.back() == std::array<std::size_t, 5>{4, 3, 2, 1, 0});

template <std::size_t Order, std::size_t... I>
constexpr bool sorts(std::index_sequence<I...>) {
  using Composed = compose_t<std::tuple_element_t<orders[Order][I], Five>...>;
  return same<Composed, Sorted> && same<Mechanisms<Composed>, Mechanisms<Sorted>>;
}
template <std::size_t... Order>
constexpr bool all_sort(std::index_sequence<Order...>) {
  return (sorts<Order>(std::make_index_sequence<5>{}) && ...);
}
static_assert(all_sort(std::make_index_sequence<orders.size()>{}));
static_assert(!same<Mechanisms<compose_t<Accumulate<4>>>, Mechanisms<compose_t<Accumulate<8>>>>);

// An axis that takes many keeps the order in which they were written.
template <class Recipe>
struct observed;
template <class First, class... Rest>
struct observed<Composed<First, Rest...>> {
  using type = First;
};
template <class... Words>
using observed_t = typename observed<compose_t<Words...>>::type;
static_assert(
    same<observed_t<OwnObserve, AdamW, Observe<Memory>>, Many<OwnObserve, Observe<Memory>>>);
static_assert(
    same<observed_t<Observe<Memory>, AdamW, OwnObserve>, Many<Observe<Memory>, OwnObserve>>);
static_assert(same<observed_t<AdamW, OwnObserve>, Many<OwnObserve>> && same<observed_t<>, Many<>>);

// The first cause hides its consequences: words, choices, pairs.
template <class... Words>
using verdict = refuse::policies_diagnosis_t<Model, Words...>;
static_assert(same<verdict<>, refuse::Nothing> && same<verdict<Lambda, AdamW>, refuse::Nothing>);
static_assert(same<verdict<Observe<Memory>, OwnObserve>, refuse::Nothing>);
static_assert(same<verdict<AdamW, Precision<Full>, SGD, int>, refuse::NotAPolicy<int>>);
template <class Number>
using UnknownPrecision =
    refuse::UnknownChoice<Precision<Number>, Precision<FP32>, Precision<TF32>, Precision<BF16>,
                          Precision<FP16>, Precision<BF16Weights>, Precision<BF16True>,
                          Precision<FP8>>;
static_assert(same<verdict<AdamW, Precision<Full>, SGD>, UnknownPrecision<Full>>);
static_assert(same<verdict<Adam, SGD>, refuse::TwoPoliciesOnOneAxis<axis::optimizer, Adam, SGD>>);
static_assert(same<verdict<Adam, Adam, SGD>, refuse::PolicyTwice<Adam>>);
static_assert(same<verdict<Shard<Off>, Freeze<Off>, Offload<Off>>, refuse::Nothing>);
static_assert(same<verdict<Freeze<Model>>, refuse::Nothing>);  // the model has its say later
static_assert(
    same<verdict<Offload<Off, Full>>, refuse::UnknownChoice<Offload<Off, Full>, Offload<Off>>>);
static_assert(same<refuse::policies_diagnosis_t<AdamW, int>, refuse::ModelMissing<AdamW>>);

// What is frozen or checkpointed by type is declared as a unit.
struct WithUnits {
  using units = Units<Model>;
  void loss();
};
template <class... Frozen>
using frozen_verdict = refuse::model_diagnosis_t<WithUnits, Freeze<Frozen...>>;
static_assert(same<frozen_verdict<Model>, refuse::Nothing>);
static_assert(same<frozen_verdict<>, refuse::Nothing> &&
              same<frozen_verdict<Off>, refuse::Nothing>);
static_assert(
    same<frozen_verdict<Model, int>, refuse::NamesNoUnit<Freeze<Model, int>, int, WithUnits>>);
static_assert(same<refuse::model_diagnosis_t<WithUnits, AdamW, Freeze<Full>>,
                   refuse::NamesNoUnit<Freeze<Full>, Full, WithUnits>>);
static_assert(same<refuse::model_diagnosis_t<WithUnits, Checkpoint<Only<int>>>,
                   refuse::NamesNoUnit<Checkpoint<Only<int>>, int, WithUnits>>);
static_assert(same<refuse::model_diagnosis_t<WithUnits, Checkpoint<Only<Model>>>, refuse::Nothing>);

// What a word is given, written without the word, is taken for it; `Off` could mean many.
template <class Written, class Meant>
constexpr bool meant = same<verdict<Written>, refuse::MeantAnotherPolicy<Written, Meant>>;
static_assert(meant<FP32, Precision<FP32>> && meant<FP16, Precision<FP16>>);
static_assert(meant<Full, Checkpoint<Full>> && meant<Memory, Observe<Memory>>);
static_assert(same<verdict<Off>, refuse::NotAPolicy<Off>>);

// A choice of the user's own is known by its axis.
struct FP4;
template <>
struct ikebana::Precision<FP4> {
  using axis = ikebana::axis::precision;
};
static_assert(same<verdict<Precision<FP4>>, refuse::Nothing>);
static_assert(same<verdict<Checkpoint<FP4>>,
                   refuse::UnknownChoice<Checkpoint<FP4>, Checkpoint<Off>, Checkpoint<Full>,
                                         Checkpoint<Selective>, Checkpoint<Every<2>>,
                                         Checkpoint<Segments<4>>>>);

// The module behind what a user may call a model.
static_assert(same<detail::impl_of_t<std::shared_ptr<Model>>, Model>);
static_assert(same<detail::impl_of_t<Holder>, Model> && same<detail::impl_of_t<Model>, Model>);

int main() {}
