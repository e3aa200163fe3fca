#pragma once
// Declares every policy of a recipe. A policy is a type that sets one axis; it is defined in the
// folder of that axis: `Precision<BF16>` in precision/bf16.hpp.
#include <concepts>
#include <ikebana/grammar/counts.hpp>
#include <type_traits>

namespace ikebana {

/// The choice that leaves things as they are: `Checkpoint<Off>`, `Shard<Off>`.
struct Off;
/// The null choice of an axis whose policies take no parameter: `Without<axis::clip>`.
template <class Axis>
struct Without;

// precision: the dtypes of the computation and of the weights
struct FP32;
struct TF32;
struct BF16;
struct FP16;
struct BF16Weights;
struct BF16True;
struct FP8;
template <class Number>
struct Precision;

// checkpoint: the activations that backward computes again, instead of keeping them
struct Full;
struct Selective;
template <std::int64_t K = Dynamic>
struct Every;
template <std::int64_t N = Dynamic>
struct Segments;
template <class... Units>
struct Only;
template <std::int64_t N = Dynamic>
struct Budget;
template <std::int64_t N = Dynamic>
struct ActivationBudget;
template <class What>
struct Checkpoint;

// accumulate: how many microbatches make one update
template <std::int64_t N = Dynamic>
struct Accumulate;
template <class... Units>
struct Freeze;  // which parameters are not trained
// shard: what each of several ranks stores
struct DDP;
struct ZeRO1;
struct ZeRO2;
struct FSDP;
template <std::int64_t N>
struct HSDP;
template <class How>
struct Shard;  // for several ranks: #include <ikebana/shard.hpp>
// offload: what lies elsewhere than on the device while it is not needed
struct CPU;
struct Disk;
struct Activations;
struct OptimizerState;
struct Parameters;
struct Gradients;
template <class Where, class... What>
struct Offload;
// capture, quantize, prune: their null choices
template <class What>
struct Capture;
template <class How, class... What>
struct Quantize;
template <class How, class... What>
struct Prune;
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
struct Memory;
template <class What>
struct Observe;
// device: where the model computes
struct On;
// layout: how tensors of four dimensions lie in memory
struct ChannelsLast;
template <class Format>
struct Layout;

/// Carries out a policy: specialised for every policy, built from its values, derived from the
/// hooks of its axis (hooks.hpp): `template <> struct Mechanism<YourPolicy> : ClipHooks {...}`.
/// Those of this library are `template <std::same_as<Precision<BF16>> Policy> struct
/// Mechanism<Policy>`: a template, which only the files whose recipe has the policy compile.
template <class Policy>
struct Mechanism;

/// The axes of a recipe. Each takes one policy, or declares that it takes `many`; where none is
/// written, its `default_policy`.
namespace axis {
struct own {};  ///< The base of an axis of your own, which is asked the hooks of `Hooks`, last.
struct observe {
  static constexpr bool many = true;
};
struct capture {
  using default_policy = Capture<Off>;
};
struct shard {
  using default_policy = Shard<Off>;
};
struct offload {
  using default_policy = Offload<Off>;
};
struct checkpoint {
  using default_policy = Checkpoint<Off>;
};
struct precision {
  using default_policy = Precision<FP32>;
};
struct prune {
  using default_policy = Prune<Off>;
};
struct quantize {
  using default_policy = Quantize<Off>;
};
struct accumulate {
  using default_policy = Accumulate<1>;
};
struct objective {
  using default_policy = Without<objective>;
};
struct clip {
  static constexpr bool many = true;
  using default_policy = Without<clip>;
};
struct optimizer {
  using default_policy = AdamW;
};
struct schedule {
  using default_policy = ConstantLR;
};
struct average {
  using default_policy = Without<average>;
};
struct freeze {
  using default_policy = Freeze<Off>;
};
struct device {
  using default_policy = Without<device>;
};
struct layout {
  using default_policy = Layout<Off>;
};
}  // namespace axis

}  // namespace ikebana
