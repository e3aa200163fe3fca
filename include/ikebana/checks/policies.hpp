#pragma once
// Checks the policies of a recipe in stages. A stage is looked at only if the former passed, so
// that the first cause hides its consequences.
#include <ikebana/checks/policies_by_name.hpp>
#include <ikebana/grammar/diagnosis.hpp>
#include <ikebana/grammar/refuse.hpp>
#include <ikebana/grammar/refuse_capture.hpp>
#include <ikebana/grammar/refuse_offload.hpp>
#include <ikebana/grammar/refuse_use.hpp>
#include <ikebana/grammar/units.hpp>
#include <utility>

namespace ikebana::refuse {

/// Stage 2: checks that every policy has an argument that exists. The vocabulary lists it, or the
/// user defined the policy with an `axis`.
template <class Policy>
struct choice {
  using type = Nothing;
};
template <class Policy>
concept unknown = !listed<Policy> && !requires { typename Policy::axis; };
template <unknown Policy>
  requires requires { detail::declared_axis<Policy>::template takes<Policy>; }
struct choice<Policy> {
  using type = typename detail::declared_axis<Policy>::template refused<UnknownChoice, Policy>;
};
/// True if all of these can be offloaded together, even if not each by itself.
template <class Where, class... What>
concept part_of_offload =
    is_one_of<Where, AxisList<CPU, Disk>> &&
    (is_one_of<What, AxisList<Activations, OptimizerState, Parameters, Gradients>> && ...);
template <class Where, class... What>
  requires(unknown<Offload<Where, What...>> && part_of_offload<Where, What...>)
struct choice<Offload<Where, What...>> {
  using type = OffloadsPart<Offload<Where, What...>>;
};
template <auto N>
  requires(!std::integral<decltype(N)> || std::same_as<decltype(N), bool>)
struct choice<Accumulate<N>> {
  using type = NotACount<Accumulate<N>>;
};
template <std::integral auto N>
  requires(!std::same_as<decltype(N), bool> && std::cmp_less(N, 1) && !std::cmp_equal(N, Dynamic))
struct choice<Accumulate<N>> {
  using type = EmptyAccumulate<N>;
};
template <FitCount Max>
struct choice<Accumulate<Max>> {
  static constexpr bool is_empty = Max < Fit<1> && Max != Fit<>;
  using type = std::conditional_t<is_empty, EmptyFit<Accumulate<Max>>, Nothing>;
};
template <std::int64_t K>
  requires(K < 1 && K != Dynamic)
struct choice<Checkpoint<Every<K>>> {
  using type = CountBelowOne<Checkpoint<Every<K>>>;
};
template <std::int64_t N>
  requires(N < 1 && N != Dynamic)
struct choice<Checkpoint<Segments<N>>> {
  using type = CountBelowOne<Checkpoint<Segments<N>>>;
};
template <std::int64_t N>
  requires(N < 1 && N != Dynamic)
struct choice<Checkpoint<Budget<N>>> {
  using type = BudgetBelowOne<Checkpoint<Budget<N>>>;
};
template <std::int64_t N>
  requires(N < 1 && N != Dynamic)
struct choice<Checkpoint<ActivationBudget<N>>> {
  using type = BudgetBelowOne<Checkpoint<ActivationBudget<N>>>;
};
template <std::int64_t N>
  requires(N < 1)
struct choice<Shard<HSDP<N>>> {
  using type = NoRanksInCopy<Shard<HSDP<N>>>;
};
template <class Inner>
  requires(!std::is_same_v<axis_of_t<Inner>, axis::optimizer>)
struct choice<InBackward<Inner>> {
  using type = NotAnOptimizer<Inner>;
};
template <class First, class Rest>
struct choice<InBackward<Combined<First, Rest>>> {
  using type = NotInBackward<InBackward<Combined<First, Rest>>, Combined<First, Rest>>;
};
template <class Inner>
  requires requires { requires Inner::updates_several_at_once; }
struct choice<InBackward<Inner>> {
  using type = NotInBackward<InBackward<Inner>, Inner>;
};
template <class Policy>
  requires requires { requires Policy::needs_closure; }
struct choice<Policy> {
  using type = NeedsSeveralLosses<Policy>;
};
/// True if `Part` can be one of the two optimizers of `Policy`.
template <class Policy, class Part>
struct part : is<Nothing> {};
template <class Policy, class Part>
  requires(!std::is_same_v<axis_of_t<Part>, axis::optimizer>)
struct part<Policy, Part> : is<PartIsNoOptimizer<Policy, Part>> {};
template <class Policy, class Inner>
struct part<Policy, InBackward<Inner>> : is<NotInBackward<Policy, InBackward<Inner>>> {};
template <class First, class Rest>
struct choice<Combined<First, Rest>>
    : first<typename part<Combined<First, Rest>, First>::type,
            typename part<Combined<First, Rest>, Rest>::type, typename choice<First>::type,
            typename choice<Rest>::type> {};

/// A module of TorchScript. It can be called, so that it looks like an objective.
template <class Type>
concept scripted = std::is_same_v<detail::impl_of_t<std::remove_cvref_t<Type>>, torch::jit::Module>;

/// Stage 1: checks that every type of the recipe is a policy on a known axis.
template <class Model, class Policy>
consteval auto check_policy() {
  using Axis = axis_of_t<Policy>;
  using Nearest = typename nearest<Policy>::type;
  if constexpr (scripted<Policy>) return is<ScriptedModel<Policy>>{};
  else if constexpr (policy<Policy> && known_axis<Axis>) return is<Nothing>{};
  else if constexpr (policy<Policy>) return is<NotAnAxis<Policy, Axis>>{};
  else if constexpr (!std::is_void_v<Nearest>) return is<MeantAnotherPolicy<Policy, Nearest>>{};
  else if constexpr (is_other_loss<Policy>) return is<LossOfTorch<Policy>>{};
  else if constexpr (std::is_same_v<Policy, torch::optim::LBFGS>)
    return is<NeedsSeveralLosses<Policy>>{};
  else if constexpr (module_type<Policy>) return is<SecondModel<Model, Policy>>{};
  else return is<NotAPolicy<Policy>>{};
}

/// True for a policy that must see all gradients before the first update.
template <class Policy>
inline constexpr bool needs_all_gradients = std::is_same_v<axis_of_t<Policy>, axis::clip>;
template <class Axis>
inline constexpr bool needs_all_gradients<Without<Axis>> = false;
template <>
inline constexpr bool needs_all_gradients<Precision<FP16>> = true;
template <auto N>
inline constexpr bool needs_all_gradients<Accumulate<N>> =
    !std::is_same_v<Accumulate<N>, Accumulate<1>>;
template <class Policy, class Other>
struct in_backward : is<Nothing> {};
template <class O, class Other>
  requires needs_all_gradients<Other>
struct in_backward<InBackward<O>, Other> : is<NeedsAllGradients<InBackward<O>, Other>> {};
template <class O, class How>
  requires(!std::is_same_v<How, Off>)
struct in_backward<InBackward<O>, Shard<How>> : is<UpdatesBeforeSum<InBackward<O>, Shard<How>>> {};
template <class O, class Where, class... What>
  requires(!std::is_same_v<Where, Off> && !std::is_same_v<AxisList<What...>, AxisList<Activations>>)
struct in_backward<InBackward<O>, Offload<Where, What...>>
    : is<UpdatesBeforeArrival<InBackward<O>, Offload<Where, What...>>> {};

/// True for policies that recompute several units as one, or choose what is recomputed by what a
/// step has measured.
template <class Policy>
inline constexpr bool checkpoints_several_units = false;
template <std::int64_t N>
inline constexpr bool checkpoints_several_units<Checkpoint<Segments<N>>> = true;
template <std::int64_t N>
inline constexpr bool checkpoints_several_units<Checkpoint<Budget<N>>> = true;
template <std::int64_t N>
inline constexpr bool checkpoints_several_units<Checkpoint<ActivationBudget<N>>> = true;

/// Says which policies do more in forward and backward than a replay repeats.
template <class Policy, class Other>
struct in_replay : is<Nothing> {};
template <class How>
  requires(!std::is_same_v<How, Off>)
struct in_replay<Capture<WholeStep>, Shard<How>>
    : is<ExchangesInBackward<Capture<WholeStep>, Shard<How>>> {};
template <class Where, class... Tensors>
  requires(!std::is_same_v<Where, Off>)
struct in_replay<Capture<WholeStep>, Offload<Where, Tensors...>>
    : is<MovesInBackward<Capture<WholeStep>, Offload<Where, Tensors...>>> {};
template <class Where, class... Tensors>
  requires(!std::is_same_v<Where, Off> && (std::is_same_v<Tensors, Activations> || ...))
struct in_replay<Capture<EachUnit>, Offload<Where, Tensors...>>
    : is<KeepsActivations<Capture<EachUnit>, Offload<Where, Tensors...>>> {};
template <class How>
  requires checkpoints_several_units<Checkpoint<How>>
struct in_replay<Capture<EachUnit>, Checkpoint<How>>
    : is<RecomputesSeveralUnits<Capture<EachUnit>, Checkpoint<How>>> {};
template <class O>
struct in_replay<Capture<WholeStep>, InBackward<O>>
    : is<UpdatesInReplay<Capture<WholeStep>, InBackward<O>>> {};

template <>
struct in_replay<Capture<WholeStep>, Observe<EachUnit>>
    : is<UnitsInReplay<Capture<WholeStep>, Observe<EachUnit>>> {};

template <class What>
  requires(!std::is_same_v<What, Off>)
struct in_replay<Capture<What>, Observe<FirstNonFinite>>
    : is<OperatorsInReplay<Capture<What>, Observe<FirstNonFinite>>> {};

/// True for `Without` of any axis.
template <class Policy>
inline constexpr bool is_without = false;
template <class Axis>
inline constexpr bool is_without<Without<Axis>> = true;

/// Stage 3: says why a recipe cannot hold both `Policy` and `Later`.
template <class Policy, class Later>
consteval auto check_pair() {
  using Axis = axis_of_t<Policy>;
  if constexpr (std::is_same_v<Policy, Later>) return is<PolicyTwice<Policy>>{};
  else if constexpr (!std::is_same_v<Axis, axis_of_t<Later>>)
    return is<typename first<
        typename in_backward<Policy, Later>::type, typename in_backward<Later, Policy>::type,
        typename in_replay<Policy, Later>::type, typename in_replay<Later, Policy>::type>::type>{};
  else if constexpr (detail::takes_many<Axis> && !is_without<Policy> && !is_without<Later>)
    return is<Nothing>{};
  else return is<TwoPoliciesSet<Axis, Policy, Later>>{};
}
template <class... Policies>
struct conflict {
  using type = Nothing;
};
template <class Policy, class... Later>
struct conflict<Policy, Later...>
    : first<typename first<typename decltype(check_pair<Policy, Later>())::type...>::type,
            typename conflict<Later...>::type> {};

/// True for a policy by which several ranks train.
template <class Policy>
inline constexpr bool is_of_several_ranks =
    std::is_same_v<axis_of_t<Policy>, axis::shard> && !std::is_same_v<Policy, Shard<Off>> &&
    !is_without<Policy>;

template <class Model, class... Policies>
consteval auto check_policies() {
  using Policy = typename first<typename decltype(check_policy<Model, Policies>())::type...>::type;
  if constexpr (policy<Model>) return is<ModelMissing<Model>>{};
  else if constexpr (!passed<Policy>) return is<Policy>{};
  else {
    using Choice = typename first<typename choice<Policies>::type...>::type;
    using Conflict = typename conflict<Policies...>::type;
    constexpr bool times_ranks = (std::is_same_v<Policies, Observe<RankTimes>> || ...);
    constexpr bool has_ranks = (is_of_several_ranks<Policies> || ...);
    if constexpr (!passed<Choice>) return is<Choice>{};
    else if constexpr (!passed<Conflict>) return is<Conflict>{};
    else if constexpr (times_ranks && !has_ranks) return is<OneRankTimed<Observe<RankTimes>>>{};
    else return is<Nothing>{};
  }
}

/// The first unit that a policy names and the model does not declare.
template <class Model, class Policy, class... Units>
using undeclared_t = first<std::conditional_t<detail::listed<Units, detail::units_of_t<Model>>,
                                              Nothing, NamesNoUnit<Policy, Units, Model>>...>;
template <class Model, class Policy>
struct named_units : is<Nothing> {};
template <class Model, class... Units>
struct named_units<Model, Checkpoint<Only<Units...>>>
    : undeclared_t<Model, Checkpoint<Only<Units...>>, Units...> {};
template <class Model, class... Units>
struct named_units<Model, Freeze<Units...>> : undeclared_t<Model, Freeze<Units...>, Units...> {};
template <class Model>
struct named_units<Model, Freeze<Off>> : is<Nothing> {};

/// Stage 4: checks that the model has the loss and the units that the recipe needs.
template <class Model, class... Policies>
consteval auto check_model() {
  constexpr bool objective = (std::is_same_v<axis_of_t<Policies>, axis::objective> || ...);
  if constexpr (!objective && !detail::has_loss<Model>) return is<NoLoss<Model>>{};
  else
    return is<
        typename first<std::conditional_t<needs_units<Policies> && !detail::shows_units<Model>,
                                          NeedsUnits<Policies, Model>, Nothing>...,
                       typename named_units<Model, Policies>::type...>::type>{};
}

/// Says why these policies cannot form a recipe, as a type whose instantiation is the error;
/// `Nothing` if they can.
template <class Model, class... Policies>
using policies_diagnosis_t = typename decltype(check_policies<Model, Policies...>())::type;
/// Says why this model cannot be trained with policies that can form a recipe; `Nothing` if it can.
template <class Model, class... Policies>
using model_diagnosis_t = typename decltype(check_model<Model, Policies...>())::type;

}  // namespace ikebana::refuse
