#pragma once
// Declares every policy of a recipe. A policy is a type that sets one axis; it is defined in the
// folder of that axis: `Precision<BF16>` in precision/bf16.hpp.
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
  using default_policy = Precision<FP32>;  ///< those of the weights
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
  using default_policy = Without<device>;  ///< where it is
};
/// The memory layout of tensors of four dimensions.
struct layout {
  using default_policy = Layout<Off>;  ///< as they are
};
}  // namespace axis

}  // namespace ikebana
