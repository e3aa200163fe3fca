// Tests the grammar at compile time, without LibTorch.
#include <algorithm>
#include <array>
#include <cstddef>
#include <ikebana/checks/policies.hpp>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>

namespace ikebana {
template <class Recipe>
struct Mechanisms;
}

using namespace ikebana;

template <class A, class B>
constexpr bool same = std::is_same_v<A, B>;
template <class Written, class Expected>
constexpr bool sets = same<axis_of_t<Written>, Expected>;
template <class Expected, class... Written>
constexpr bool all_set = (sets<Written, Expected> && ...);

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

// Every policy sets its axis.
static_assert(sets<Precision<FP32>, axis::precision> && sets<Precision<TF32>, axis::precision>);
static_assert(sets<Precision<BF16>, axis::precision> && sets<Precision<FP16>, axis::precision>);
static_assert(all_set<axis::checkpoint, Checkpoint<Full>, Checkpoint<Off>, Checkpoint<Selective>,
                      Checkpoint<Every<3>>, Checkpoint<Segments<>>, Checkpoint<ActivationBudget<8>>,
                      Checkpoint<Only<Model>>>);
static_assert(sets<Accumulate<4>, axis::accumulate> && sets<Accumulate<>, axis::accumulate>);
static_assert(sets<Offload<Off>, axis::offload> && sets<Shard<Off>, axis::shard>);
static_assert(sets<Capture<Off>, axis::capture> && sets<Freeze<Off>, axis::freeze>);
static_assert(all_set<axis::optimizer, AdamW, Adam, SGD>);
static_assert(all_set<axis::schedule, ConstantLR, LinearLR, CosineAnnealingLR, StepLR,
                      WarmupStableDecayLR, LambdaLR, ReduceLROnPlateau>);
static_assert(all_set<axis::freeze, Freeze<>, Freeze<Model, Declared>>);
static_assert(all_set<axis::objective, BCEWithLogitsLoss, KLDivLoss, CrossEntropyLoss, MSELoss,
                      L1Loss, SmoothL1Loss, HuberLoss, BCELoss, NLLLoss, PoissonNLLLoss, CTCLoss,
                      TripletMarginLoss, CosineEmbeddingLoss>);
static_assert(sets<ClipGradNorm, axis::clip> && sets<Without<axis::clip>, axis::clip>);
static_assert(sets<Observe<Memory>, axis::observe> && sets<On, axis::device>);
static_assert(sets<Layout<ChannelsLast>, axis::layout>);
static_assert(all_set<axis::average, EMA, Without<axis::average>>);

// So does a user-defined policy; any callable is an objective; no other type is a policy.
static_assert(sets<OwnClip, axis::clip> && sets<CallableClip, axis::clip>);
static_assert(sets<Functor, axis::objective> && sets<GenericFunctor, axis::objective>);
static_assert(sets<Lambda, axis::objective> && sets<int (*)(int, int), axis::objective>);
static_assert(sets<int, void> && sets<Model, void> && sets<Declared, void>);
static_assert(sets<Holder, void> && sets<NotCallable, void>);
static_assert(sets<BF16, void> && sets<Full, void> && sets<Memory, void>);
static_assert(sets<const AdamW, void> && sets<AdamW&, void> && sets<AdamW*, void>);

// An axis that is left out gets its default, which no type names.
template <class Axis, class... Policies>
using on = typename detail::policy_in<Axis, compose_t<Policies...>>::type;
static_assert(same<compose_t<>, Composed<>>);
template <class... Axes>
Composed<on<Axes>...> defaults(AxisList<Axes...>);
static_assert(
    same<decltype(defaults(WrappingOrder())),
         Composed<Many<>, Capture<Off>, Shard<Off>, Offload<Off>, Checkpoint<Off>, Precision<FP32>,
                  Accumulate<1>, Without<axis::objective>, Without<axis::clip>, AdamW, ConstantLR,
                  Without<axis::average>, Freeze<Off>, Without<axis::device>, Layout<Off>>>);
static_assert(same<compose_t<AdamW, Accumulate<1>, Precision<FP32>>, compose_t<>>);
static_assert(same<on<axis::optimizer, SGD>, SGD> && same<on<axis::clip, SGD>, on<axis::clip>>);
static_assert(same<on<axis::clip, ClipGradNorm>, Many<ClipGradNorm>>);

// Policies in any order make one type.
using Five = std::tuple<AdamW, Precision<BF16>, Checkpoint<Full>, Accumulate<4>, OwnClip>;
using Sorted = Composed<Checkpoint<Full>, Precision<BF16>, Accumulate<4>, Many<OwnClip>>;
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

// An axis that accepts several policies keeps the order in which they were written.
template <class... Policies>
using observed_t = on<axis::observe, Policies...>;
static_assert(
    same<observed_t<OwnObserve, AdamW, Observe<Memory>>, Many<OwnObserve, Observe<Memory>>>);
static_assert(
    same<observed_t<Observe<Memory>, AdamW, OwnObserve>, Many<Observe<Memory>, OwnObserve>>);
static_assert(same<observed_t<AdamW, OwnObserve>, Many<OwnObserve>> && same<observed_t<>, Many<>>);
static_assert(same<compose_t<Without<axis::clip>, AdamW>, compose_t<>>);

// An axis of a user's own follows all others, in the order in which policies name them; it takes
// many policies if it says so, and is absent from a recipe without it.
struct first_axis : axis::own {};
struct second_axis : axis::own {
  static constexpr bool many = true;
};
struct OnFirst {
  using axis = first_axis;
};
template <int>
struct OnSecond {
  using axis = second_axis;
};
template <class Axis>
struct is_own : std::bool_constant<own_axis<Axis>> {};
template <class... Policies>
using own_order = typename detail::order_in<compose_t<Policies...>>::type;
template <class... Axes, class... Last>
AxisList<Axes..., Last...> joined(AxisList<Axes...>, AxisList<Last...>);
template <class... Last>
using Then = decltype(joined(WrappingOrder(), AxisList<Last...>()));
static_assert(same<own_order<AdamW>, WrappingOrder>);
static_assert(same<own_order<OnSecond<1>, AdamW, OnSecond<2>>, Then<second_axis>>);
static_assert(same<own_order<OnSecond<1>, OnFirst, OnSecond<2>>, Then<second_axis, first_axis>>);
static_assert(same<detail::reversed_t<AxisList<axis::clip, axis::average, first_axis>>,
                   AxisList<first_axis, axis::average, axis::clip>>);
static_assert(same<detail::reversed_t<AxisList<>>, AxisList<>>);
static_assert(same<detail::filtered_t<AxisList<first_axis, axis::clip, second_axis>, is_own>,
                   AxisList<first_axis, second_axis>>);
static_assert(same<detail::filtered_t<AxisList<axis::clip>, is_own>, AxisList<>>);
static_assert(same<compose_t<OnFirst, AdamW>, compose_t<AdamW, OnFirst>>);
// A recipe that does not name such an axis does not contain the axis's default either.
struct third_axis : axis::own {
  using default_policy = AdamW;
};
static_assert(same<on<third_axis>, Many<>>);

// Only the first cause is reported: policies, choices, pairs.
template <class... Policies>
using diagnosis = refuse::policies_diagnosis_t<Model, Policies...>;
static_assert(same<diagnosis<>, refuse::Nothing> &&
              same<diagnosis<Lambda, AdamW>, refuse::Nothing>);
static_assert(same<diagnosis<Observe<Memory>, OwnObserve>, refuse::Nothing>);
static_assert(same<diagnosis<ClipGradNorm, OwnClip>, refuse::Nothing>);
static_assert(same<diagnosis<OwnClip, OwnClip>, refuse::PolicyTwice<OwnClip>>);
static_assert(same<diagnosis<OwnClip, Without<axis::clip>>,
                   refuse::TwoPoliciesSet<axis::clip, OwnClip, Without<axis::clip>>>);
static_assert(same<diagnosis<OnFirst, OnSecond<1>, OnSecond<2>>, refuse::Nothing>);
// An axis that does not say that it is one, even if it looks like one of the library's.
struct OwnAxis {
  using default_policy = AdamW;
};
struct OnOwnAxis {
  using axis = OwnAxis;
};
static_assert(same<diagnosis<OnOwnAxis>, refuse::NotAnAxis<OnOwnAxis, OwnAxis>>);
static_assert(same<diagnosis<AdamW, Precision<Full>, SGD, int>, refuse::NotAPolicy<int>>);
template <class Number>
using UnknownPrecision =
    refuse::UnknownChoice<Precision<Number>, Precision<FP32>, Precision<TF32>, Precision<BF16>,
                          Precision<FP16>, Precision<BF16Weights>, Precision<BF16True>,
                          Precision<FP8>>;
static_assert(same<diagnosis<AdamW, Precision<Full>, SGD>, UnknownPrecision<Full>>);
static_assert(same<diagnosis<Adam, SGD>, refuse::TwoPoliciesSet<axis::optimizer, Adam, SGD>>);
static_assert(same<diagnosis<Adam, Adam, SGD>, refuse::PolicyTwice<Adam>>);
static_assert(same<diagnosis<Shard<Off>, Freeze<Off>, Offload<Off>>, refuse::Nothing>);
static_assert(same<diagnosis<Freeze<Model>>, refuse::Nothing>);  // the model is checked later
static_assert(same<refuse::policies_diagnosis_t<AdamW, int>, refuse::ModelMissing<AdamW>>);

// A type that is frozen or checkpointed must be declared as a unit.
struct WithUnits {
  using units = Units<Model>;
  void loss();
};
template <class... Frozen>
using frozen_diagnosis = refuse::model_diagnosis_t<WithUnits, Freeze<Frozen...>>;
static_assert(same<frozen_diagnosis<Model>, refuse::Nothing>);
static_assert(same<frozen_diagnosis<>, refuse::Nothing> &&
              same<frozen_diagnosis<Off>, refuse::Nothing>);
static_assert(
    same<frozen_diagnosis<Model, int>, refuse::NamesNoUnit<Freeze<Model, int>, int, WithUnits>>);
static_assert(same<refuse::model_diagnosis_t<WithUnits, AdamW, Freeze<Full>>,
                   refuse::NamesNoUnit<Freeze<Full>, Full, WithUnits>>);
static_assert(same<refuse::model_diagnosis_t<WithUnits, Checkpoint<Only<int>>>,
                   refuse::NamesNoUnit<Checkpoint<Only<int>>, int, WithUnits>>);
static_assert(same<refuse::model_diagnosis_t<WithUnits, Checkpoint<Only<Model>>>, refuse::Nothing>);

// The argument of a policy, written alone, is diagnosed as that policy; `Off` could mean several.
template <class Written, class Meant>
constexpr bool meant = same<diagnosis<Written>, refuse::MeantAnotherPolicy<Written, Meant>>;
static_assert(meant<FP32, Precision<FP32>> && meant<FP16, Precision<FP16>>);
static_assert(meant<Full, Checkpoint<Full>> && meant<Memory, Observe<Memory>>);
static_assert(same<diagnosis<Off>, refuse::NotAPolicy<Off>>);

// A user-defined choice exists if it declares its axis.
struct FP4;
template <>
struct ikebana::Precision<FP4> {
  using axis = ikebana::axis::precision;
};
static_assert(same<diagnosis<Precision<FP4>>, refuse::Nothing>);
static_assert(same<diagnosis<Checkpoint<FP4>>,
                   refuse::UnknownChoice<Checkpoint<FP4>, Checkpoint<Off>, Checkpoint<Full>,
                                         Checkpoint<Selective>, Checkpoint<Every<2>>,
                                         Checkpoint<Segments<4>>, Checkpoint<Budget<>>>>);

// The module behind a model as a user writes it.
static_assert(same<detail::impl_of_t<std::shared_ptr<Model>>, Model>);
static_assert(same<detail::impl_of_t<Holder>, Model> && same<detail::impl_of_t<Model>, Model>);

// Messages show the names of types as their users write them.
constexpr bool equal(const auto& sentence, std::string_view text) {
  return std::string_view(sentence.characters) == text;
}
using refuse::list_of, refuse::name, refuse::quoted;
static_assert(equal(quoted<Precision<BF16>> + " and " + quoted<Checkpoint<Every<>>>,
                    "`Precision<BF16>` and `Checkpoint<Every<>>`"));
static_assert(equal("the " + name<axis::clip>, "the clip"));
static_assert(equal(quoted<Without<axis::clip>>, "`Without<axis::clip>`"));
static_assert(equal(quoted<Freeze<std::pair<Model, int>>>, "`Freeze<std::pair<Model, int>>`"));
static_assert(equal(list_of<Adam, SGD, Accumulate<-2>>, "`Adam`, `SGD`, `Accumulate<-2>`"));
static_assert(equal(list_of<Accumulate<Fit<>>, InBackward<Accumulate<Fit<100>>>>,
                    "`Accumulate<Fit<>>`, `InBackward<Accumulate<Fit<100>>>`"));

// An update in backward cannot wait for all gradients, which every count but 1 needs.
static_assert(!refuse::needs_all_gradients<Accumulate<1>> &&
              refuse::needs_all_gradients<Accumulate<4>> &&
              refuse::needs_all_gradients<Accumulate<>> &&
              refuse::needs_all_gradients<Accumulate<Fit<8>>>);
int main() {}
