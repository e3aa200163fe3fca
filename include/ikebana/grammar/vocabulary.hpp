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
// offload, capture, quantize, prune: their null choices
template <class Where, class... What>
struct Offload;
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
template <class Optimizer>
struct InBackward;
template <class First, class Rest>
struct Combined;
// schedule: the learning rate of each step
struct ConstantLR;
struct LinearLR;
struct CosineAnnealingLR;
struct StepLR;
struct WarmupStableDecayLR;
struct LambdaLR;
struct ReduceLROnPlateau;
// objective: what is minimised; by default the model's own `loss`. Any callable is one, too.
struct CrossEntropyLoss;
struct MSELoss;
struct BCEWithLogitsLoss;
struct KLDivLoss;
// clip: what is done to all gradients before the update
struct ClipGradNorm;
struct GradNorm;
// average: the weights that are evaluated
struct EMA;
// observe: what a report contains besides the loss
struct Memory;
template <class What>
struct Observe;
// device: where the model computes
struct On;

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
}  // namespace axis

namespace detail {

/// A policy template that takes one of a list of types as its argument.
template <class Axis, template <class...> class Template, class... Given>
struct policy_template {
  using type = Axis;
  template <class Policy>
  static constexpr bool takes = (std::is_same_v<Policy, Template<Given>> || ...);
  template <template <class...> class Refusal, class Policy>
  using refused = Refusal<Policy, Template<Given>...>;
};

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
    : policy_template<axis::offload, Offload, Off> {};
template <class H> struct declared_axis<Shard<H>>
    : policy_template<axis::shard, Shard, Off, DDP, ZeRO1, ZeRO2, FSDP, HSDP<8>> {};
template <std::int64_t N> struct declared_axis<Shard<HSDP<N>>>
    : any_argument_on_axis_of<Shard<Off>> {};
template <class W> struct declared_axis<Capture<W>>
    : policy_template<axis::capture, Capture, Off> {};
template <class... W> struct declared_axis<Quantize<W...>>
    : policy_template<axis::quantize, Quantize, Off> {};
template <class... W> struct declared_axis<Prune<W...>>
    : policy_template<axis::prune, Prune, Off> {};
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
template <class O> struct declared_axis<InBackward<O>> { using type = axis::optimizer; };
template <class F, class R> struct declared_axis<Combined<F, R>> { using type = axis::optimizer; };
template <> struct declared_axis<ConstantLR> { using type = axis::schedule; };
template <> struct declared_axis<LinearLR> { using type = axis::schedule; };
template <> struct declared_axis<CosineAnnealingLR> { using type = axis::schedule; };
template <> struct declared_axis<StepLR> { using type = axis::schedule; };
template <> struct declared_axis<WarmupStableDecayLR> { using type = axis::schedule; };
template <> struct declared_axis<LambdaLR> { using type = axis::schedule; };
template <> struct declared_axis<ReduceLROnPlateau> { using type = axis::schedule; };
template <> struct declared_axis<CrossEntropyLoss> { using type = axis::objective; };
template <> struct declared_axis<MSELoss> { using type = axis::objective; };
template <> struct declared_axis<BCEWithLogitsLoss> { using type = axis::objective; };
template <> struct declared_axis<KLDivLoss> { using type = axis::objective; };
template <> struct declared_axis<EMA> { using type = axis::average; };
template <> struct declared_axis<ClipGradNorm> { using type = axis::clip; };
template <> struct declared_axis<GradNorm> { using type = axis::clip; };
template <> struct declared_axis<On> { using type = axis::device; };
// clang-format on

}  // namespace detail
}  // namespace ikebana
