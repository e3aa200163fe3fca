#pragma once
// The axis of a type: of a policy of the library, of a user's own policy, or of a callable.
#include <concepts>
#include <ikebana/grammar/axes.hpp>
#include <type_traits>

namespace ikebana {

// The axis that each policy sets, and the choices that a template of policies takes.
namespace detail {

/// A policy template and the choices of it that exist.
template <class Axis, class... Policies>
struct policy_list {
  using type = Axis;
  template <class Policy>
  static constexpr bool takes = (std::is_same_v<Policy, Policies> || ...);
  template <template <class...> class Refusal, class Policy>
  using refused = Refusal<Policy, Policies...>;
};
/// A policy template that takes one of a list of types as its argument.
template <class Axis, template <class...> class Template, class... Given>
using policy_template = policy_list<Axis, Template<Given>...>;

/// The axis of a policy declared above; `void` for any other type.
template <class Policy>
struct declared_axis {
  using type = void;
};
/// A policy on the axis of `Policy` whose argument is a number or types of the user's own.
template <class Policy>
struct any_argument_on_axis_of {
  using type = typename declared_axis<Policy>::type;
  template <class>
  static constexpr bool takes = true;
};
// clang-format off
template <class A> struct declared_axis<Without<A>> { using type = A; };
template <class N> struct declared_axis<Precision<N>>
    : policy_template<axis::precision, Precision, FP32, TF32, BF16, FP16, BF16Weights, BF16True,
                      FP8> {};
template <class W> struct declared_axis<Checkpoint<W>>
    : policy_template<axis::checkpoint, Checkpoint, Off, Full, Selective, Every<2>, Segments<4>,
                      Budget<>> {};
using CheckpointOf = any_argument_on_axis_of<Checkpoint<Off>>;
template <std::int64_t K> struct declared_axis<Checkpoint<Every<K>>> : CheckpointOf {};
template <std::int64_t N> struct declared_axis<Checkpoint<Segments<N>>> : CheckpointOf {};
template <std::int64_t N> struct declared_axis<Checkpoint<Budget<N>>> : CheckpointOf {};
template <std::int64_t N> struct declared_axis<Checkpoint<ActivationBudget<N>>> : CheckpointOf {};
template <class... U> struct declared_axis<Checkpoint<Only<U...>>> : CheckpointOf {};
template <class W> struct declared_axis<Observe<W>>
    : policy_template<axis::observe, Observe, Memory, Phases, Throughput, EachUnit,
                      FirstNonFinite, RankTimes, Profile> {};
template <class... W> struct declared_axis<Offload<W...>>
    : policy_list<axis::offload, Offload<Off>, Offload<CPU>, Offload<CPU, OptimizerState>,
                  Offload<CPU, Activations>, Offload<CPU, Activations, OptimizerState>,
                  Offload<CPU, Activations, Parameters>, Offload<Disk>,
                  Offload<Disk, OptimizerState>, Offload<Disk, Activations>,
                  Offload<Disk, Activations, OptimizerState>,
                  Offload<Disk, Activations, Parameters>> {};
template <class H> struct declared_axis<Shard<H>>
    : policy_template<axis::shard, Shard, Off, DDP, ZeRO1, ZeRO2, FSDP, HSDP<8>> {};
template <std::int64_t N> struct declared_axis<Shard<HSDP<N>>>
    : any_argument_on_axis_of<Shard<Off>> {};
template <class W> struct declared_axis<Capture<W>>
    : policy_template<axis::capture, Capture, Off, WholeStep, EachUnit> {};
template <class... U> struct declared_axis<Freeze<U...>> { using type = axis::freeze; };
template <auto N> struct declared_axis<Accumulate<N>> { using type = axis::accumulate; };
template <> struct declared_axis<AdamW> { using type = axis::optimizer; };
template <> struct declared_axis<Adam> { using type = axis::optimizer; };
template <> struct declared_axis<SGD> { using type = axis::optimizer; };
template <> struct declared_axis<Adagrad> { using type = axis::optimizer; };
template <> struct declared_axis<Adafactor> { using type = axis::optimizer; };
template <> struct declared_axis<Lion> { using type = axis::optimizer; };
template <> struct declared_axis<Muon> { using type = axis::optimizer; };
template <> struct declared_axis<SparseAdam> { using type = axis::optimizer; };
template <> struct declared_axis<AdamW8bit> { using type = axis::optimizer; };
template <> struct declared_axis<RMSprop> { using type = axis::optimizer; };
template <> struct declared_axis<NAdam> { using type = axis::optimizer; };
template <> struct declared_axis<RAdam> { using type = axis::optimizer; };
template <> struct declared_axis<Adamax> { using type = axis::optimizer; };
template <> struct declared_axis<Adadelta> { using type = axis::optimizer; };
template <> struct declared_axis<ASGD> { using type = axis::optimizer; };
template <> struct declared_axis<Rprop> { using type = axis::optimizer; };
template <> struct declared_axis<LAMB> { using type = axis::optimizer; };
template <class O> struct declared_axis<InBackward<O>> { using type = axis::optimizer; };
template <class F, class R> struct declared_axis<Combined<F, R>> { using type = axis::optimizer; };
template <> struct declared_axis<ConstantLR> { using type = axis::schedule; };
template <> struct declared_axis<LinearLR> { using type = axis::schedule; };
template <> struct declared_axis<CosineAnnealingLR> { using type = axis::schedule; };
template <> struct declared_axis<StepLR> { using type = axis::schedule; };
template <> struct declared_axis<MultiStepLR> { using type = axis::schedule; };
template <> struct declared_axis<ExponentialLR> { using type = axis::schedule; };
template <> struct declared_axis<PolynomialLR> { using type = axis::schedule; };
template <> struct declared_axis<CosineAnnealingWarmRestarts> { using type = axis::schedule; };
template <> struct declared_axis<OneCycleLR> { using type = axis::schedule; };
template <> struct declared_axis<CyclicLR> { using type = axis::schedule; };
template <> struct declared_axis<WarmupStableDecayLR> { using type = axis::schedule; };
template <> struct declared_axis<LambdaLR> { using type = axis::schedule; };
template <> struct declared_axis<ReduceLROnPlateau> { using type = axis::schedule; };
template <class... S> struct declared_axis<SequentialLR<S...>> { using type = axis::schedule; };
template <class... S> struct declared_axis<ChainedScheduler<S...>> { using type = axis::schedule; };
template <class S> struct declared_axis<PerEpoch<S>> { using type = axis::schedule; };
template <> struct declared_axis<CrossEntropyLoss> { using type = axis::objective; };
template <> struct declared_axis<MSELoss> { using type = axis::objective; };
template <> struct declared_axis<BCEWithLogitsLoss> { using type = axis::objective; };
template <> struct declared_axis<KLDivLoss> { using type = axis::objective; };
template <> struct declared_axis<NLLLoss> { using type = axis::objective; };
template <> struct declared_axis<L1Loss> { using type = axis::objective; };
template <> struct declared_axis<SmoothL1Loss> { using type = axis::objective; };
template <> struct declared_axis<HuberLoss> { using type = axis::objective; };
template <> struct declared_axis<PoissonNLLLoss> { using type = axis::objective; };
template <> struct declared_axis<BCELoss> { using type = axis::objective; };
template <> struct declared_axis<CTCLoss> { using type = axis::objective; };
template <> struct declared_axis<TripletMarginLoss> { using type = axis::objective; };
template <> struct declared_axis<CosineEmbeddingLoss> { using type = axis::objective; };
template <> struct declared_axis<EMA> { using type = axis::average; };
template <> struct declared_axis<SWA> { using type = axis::average; };
template <> struct declared_axis<ClipGradNorm> { using type = axis::clip; };
template <> struct declared_axis<ClipGradValue> { using type = axis::clip; };
template <> struct declared_axis<GradNorm> { using type = axis::clip; };
template <> struct declared_axis<InspectGradients> { using type = axis::clip; };
template <> struct declared_axis<SkipSpikes> { using type = axis::clip; };
template <> struct declared_axis<On> { using type = axis::device; };
template <class F> struct declared_axis<Layout<F>>
    : policy_template<axis::layout, Layout, Off, ChannelsLast> {};
// clang-format on

// A class has a call operator, of any signature, if its name is ambiguous in CallProbe.
struct CallOperator {
  void operator()();
};
template <class F>
struct CallProbe : F, CallOperator {};
template <class F>
concept callable_class = requires { sizeof(F); } && __is_class(F) && !__is_final(F) &&
                         !requires { typename F::ContainedType; } &&  // a module holder is a model
                         !requires { &CallProbe<F>::operator(); };
template <class Type>
inline constexpr bool declared = !std::is_void_v<typename declared_axis<Type>::type>;

}  // namespace detail

/// The axis that a policy sets: declared above, or the `using axis = ...` of a user's
/// own policy; any callable is an objective. `type` is `void` if the type is not a policy.
template <class Policy>
struct axis_of : detail::declared_axis<Policy> {};
/// The axis of a user's own policy.
template <class Policy>
  requires requires { typename Policy::axis; }
struct axis_of<Policy> {
  using type = typename Policy::axis;  ///< what it declares
};
/// The axis of a callable class.
template <class F>
  requires(!detail::declared<F> && !requires { typename F::axis; } && detail::callable_class<F>)
struct axis_of<F> {
  using type = axis::objective;  ///< what is minimised
};
/// The axis of a function.
template <class Result, class... Args>
struct axis_of<Result (*)(Args...)> {
  using type = axis::objective;  ///< what is minimised
};
/// The axis itself, or void.
template <class Policy>
using axis_of_t = typename axis_of<Policy>::type;

/// True for a policy that a user has defined: it names its axis.
template <class Policy>
concept own_policy = requires { typename Policy::axis; };

/// True for a policy that works unit by unit and has no effect on a model that declares no units;
/// the policy states it by `static constexpr bool needs_units = true`.
template <class Policy>
inline constexpr bool needs_units = false;
template <class Policy>
  requires requires { Policy::needs_units; }
inline constexpr bool needs_units<Policy> = Policy::needs_units;

}  // namespace ikebana
