#pragma once
// Declares every policy of a recipe. A policy is a type that sets one axis (axis_of.hpp); it is
// defined in the folder of that axis: `Precision<BF16>` in precision/bf16.hpp.
#include <cstdint>
#include <limits>

namespace ikebana {

/// A count that comes as a value: `Accumulate<>{.microbatches = n}`.
inline constexpr std::int64_t Dynamic = std::numeric_limits<std::int64_t>::min();

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
/// Choice of Checkpoint: a step takes at most N bytes. `Checkpoint<Budget<>>{.limit = GiB(8)}`.
template <std::int64_t N = Dynamic>
struct Budget;
/// Choice of Checkpoint: units keep at most N bytes. `Checkpoint<ActivationBudget<>>{.limit =
/// GiB(2)}`.
template <std::int64_t N = Dynamic>
struct ActivationBudget;
/// The activations that backward computes again: `Checkpoint<Full>`.
template <class What>
struct Checkpoint;

// accumulate: how many microbatches make one update
/// The type of `Fit<Max>`: a maximum, and no number of microbatches.
enum class FitCount : std::int64_t {};
/// As many microbatches as a step needs to fit into memory, and at most `Max`:
/// `Accumulate<Fit<64>>`, or `Accumulate<Fit<>>{.max = 64}`.
template <std::int64_t Max = Dynamic>
inline constexpr FitCount Fit{Max};
/// The microbatches that make one update: `Accumulate<8>`, `Accumulate<Fit<64>>`, or
/// `Accumulate<>{.microbatches = n}`.
template <auto N = Dynamic>
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
// capture: what is recorded once and replayed afterwards
struct WholeStep {};
struct EachUnit {};
/// The part of a step that is recorded once and replayed afterwards: `Capture<WholeStep>`,
/// `Capture<EachUnit>`, in `<ikebana/capture.hpp>`.
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
struct Phases {};
struct Throughput {};
struct FirstNonFinite {};
struct RankTimes {};
struct Profile {};
/// The measurements of a step: `Observe<Memory>`. Others than that are in `<ikebana/observe.hpp>`,
/// and `Observe<Profile>` is in `<ikebana/observe/profile.hpp>`.
template <class What>
struct Observe;  // g++ shows this line where a choice is incomplete: #include <ikebana/observe.hpp>
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

}  // namespace ikebana
