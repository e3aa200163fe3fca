#pragma once
// Declares every policy of a recipe, and its axis. A policy is a type that sets one axis; it is
// defined in the folder of that axis: `Precision<BF16>` in precision/bf16.hpp.
#include <concepts>
#include <ikebana/grammar/counts.hpp>
#include <type_traits>

namespace ikebana {

/// The choice that leaves things as they are: `Checkpoint<Off>`, `Shard<Off>`.
struct Off {};
/// The null choice of an axis whose policies take no parameter: `Without<axis::clip>`.
template <class Axis>
struct Without;

// precision: the dtypes of the computation and of the weights
struct FP32 {};
struct TF32 {};
struct BF16 {};
struct FP16 {};
struct BF16Weights {};
struct BF16True {};
struct FP8 {};
/// The dtypes that a trainer computes and stores weights in: `Precision<BF16>`.
template <class Number>
struct Precision;

// checkpoint: the activations that backward computes again, instead of keeping them
struct Full {};
struct Selective {};
/// Choice of Checkpoint: every K-th unit. `Checkpoint<Every<2>>`, or `Checkpoint<Every<>>{.every =
/// 2}`.
template <std::int64_t K = Dynamic>
struct Every;
/// Choice of Checkpoint: N segments of several units. `Checkpoint<Segments<>>`.
template <std::int64_t N = Dynamic>
struct Segments;
/// Choice of Checkpoint: the units of these types. `Checkpoint<Only<Block>>`.
template <class... Units>
struct Only;
/// Choice of Checkpoint: a step takes at most N bytes. `Checkpoint<Budget<>>{.bytes = GiB(8)}`.
template <std::int64_t N = Dynamic>
struct Budget;
/// Choice of Checkpoint: units keep at most N bytes. `Checkpoint<ActivationBudget<>>{.bytes =
/// GiB(2)}`.
template <std::int64_t N = Dynamic>
struct ActivationBudget;
/// The activations that backward computes again: `Checkpoint<Full>`.
template <class What>
struct Checkpoint;

// accumulate: how many microbatches make one update
template <std::int64_t N = Dynamic>
struct Accumulate;
template <class... Units>
struct Freeze;  // which parameters are not trained
// shard: what each of several ranks stores
struct DDP {};
struct ZeRO1 {};
struct ZeRO2 {};
struct FSDP {};
/// Choice of Shard: N ranks share a copy of the model. `Shard<HSDP<8>>`.
template <std::int64_t N>
struct HSDP;
/// The part that each of several ranks stores: `Shard<FSDP>`, in `<ikebana/shard.hpp>`.
template <class How>
struct Shard;  // g++ shows this line where a choice is incomplete: #include <ikebana/shard.hpp>
// offload: what lies elsewhere than on the device while it is not needed
struct CPU {};
struct Disk {};
struct Activations {};
struct OptimizerState {};
struct Parameters {};
struct Gradients {};
/// The tensors that lie outside of the device that computes: `Offload<CPU>`, `Offload<Disk,
/// OptimizerState>`.
template <class Where, class... What>
struct Offload;
// capture: its null choice
/// Decides if steps are recorded and replayed; this version has `Capture<Off>` alone.
template <class What>
struct Capture;
// optimizer
struct AdamW;
struct Adam;
struct SGD;
struct Adagrad;
struct Adafactor;
struct Lion;
struct Muon;
struct SparseAdam;
struct AdamW8bit;
struct RMSprop;
struct NAdam;
struct RAdam;
struct Adamax;
struct Adadelta;
struct ASGD;
struct Rprop;
struct LAMB;
template <class Optimizer>
struct InBackward;
template <class First, class Rest>
struct Combined;
// schedule: the learning rate of each step
struct ConstantLR;
struct LinearLR;
struct CosineAnnealingLR;
struct StepLR;
struct MultiStepLR;
struct ExponentialLR;
struct PolynomialLR;
struct CosineAnnealingWarmRestarts;
struct OneCycleLR;
struct CyclicLR;
struct WarmupStableDecayLR;
struct LambdaLR;
struct ReduceLROnPlateau;
template <class... Schedules>
struct SequentialLR;
template <class... Schedules>
struct ChainedScheduler;
template <class Schedule>
struct PerEpoch;
// objective: what is minimised; by default the model's own `loss`. Any callable is one, too.
struct CrossEntropyLoss;
struct MSELoss;
struct BCEWithLogitsLoss;
struct KLDivLoss;
struct NLLLoss;
struct L1Loss;
struct SmoothL1Loss;
struct HuberLoss;
struct PoissonNLLLoss;
struct BCELoss;
struct CTCLoss;
struct TripletMarginLoss;
struct CosineEmbeddingLoss;
// clip: what is done to all gradients before the update
struct ClipGradNorm;
struct ClipGradValue;
struct GradNorm;
struct InspectGradients;
struct SkipSpikes;
// average: the weights that are evaluated
struct EMA;
struct SWA;
// observe: what a report contains besides the loss
struct Memory {};
/// The entries of a report besides the loss: `Observe<Memory>`.
template <class What>
struct Observe;
// device: where the model computes
struct On;
// layout: how tensors of four dimensions lie in memory
struct ChannelsLast {};
/// The memory layout of tensors of four dimensions: `Layout<ChannelsLast>`.
template <class Format>
struct Layout;

/// Carries out a policy: specialised for every policy, built from its values, derived from the
/// hooks of its axis (hooks.hpp): `template <> struct Mechanism<YourPolicy> : ClipHooks {...}`.
template <class Policy>
struct Mechanism;

/// The axes of a recipe. Each takes one policy, or declares that it takes `many`; if none is
/// written, its `default_policy` holds.
namespace axis {
struct own {};  ///< The base of an axis of your own, which is asked the hooks of `Hooks`, last.
/// The entries of a report besides the loss. Takes several policies.
struct observe {
  static constexpr bool many = true;  ///< a recipe may have several
};
/// Decides if a step is recorded and replayed. It has its null choice alone.
struct capture {
  using default_policy = Capture<Off>;  ///< no step is
};
/// The part that each of several ranks stores.
struct shard {
  using default_policy = Shard<Off>;  ///< one rank
};
/// The tensors that leave the device while they are not needed.
struct offload {
  using default_policy = Offload<Off>;  ///< nothing
};
/// The activations that backward computes again.
struct checkpoint {
  using default_policy = Checkpoint<Off>;  ///< none
};
/// The dtypes of the computation and of the weights.
struct precision {
  using default_policy = Precision<FP32>;  ///< the dtypes of the weights
};
/// The number of microbatches that make one update.
struct accumulate {
  using default_policy = Accumulate<1>;  ///< one
};
/// The loss that is minimised. Any callable is a policy on it.
struct objective {
  using default_policy = Without<objective>;  ///< the model's own `loss`
};
/// The changes to all gradients before the update. Takes several policies.
struct clip {
  static constexpr bool many = true;     ///< a recipe may have several
  using default_policy = Without<clip>;  ///< nothing
};
/// The rule that updates parameters.
struct optimizer {
  using default_policy = AdamW;  ///< with its default values
};
/// The learning rate of each step.
struct schedule {
  using default_policy = ConstantLR;  ///< the optimizer's lr
};
/// The weights that are evaluated.
struct average {
  using default_policy = Without<average>;  ///< the trained ones
};
/// The parameters that are not trained.
struct freeze {
  using default_policy = Freeze<Off>;  ///< none
};
/// The device on which the model computes.
struct device {
  using default_policy = Without<device>;  ///< the parameters' own device
};
/// The memory layout of tensors of four dimensions.
struct layout {
  using default_policy = Layout<Off>;  ///< as they are
};
}  // namespace axis

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
    : policy_template<axis::observe, Observe, Memory> {};
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
    : policy_template<axis::capture, Capture, Off> {};
template <class... U> struct declared_axis<Freeze<U...>> { using type = axis::freeze; };
template <std::int64_t N> struct declared_axis<Accumulate<N>> { using type = axis::accumulate; };
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

}  // namespace detail
}  // namespace ikebana
