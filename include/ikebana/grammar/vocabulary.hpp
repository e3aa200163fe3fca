#pragma once
// Every word of a recipe, declared. A word is a type; the question it answers is its axis.
// A word is defined in its axis's folder: `Precision<BF16>` in precision/bf16.hpp.
#include <cstdint>
#include <limits>
#include <type_traits>

namespace ikebana {

/// The choice that leaves things as they are: `Checkpoint<Off>`, `Shard<Off>`.
struct Off;
/// A count that comes as a value: `Accumulate<>{.microbatches = n}`.
inline constexpr std::int64_t Dynamic = std::numeric_limits<std::int64_t>::min();
/// The null choice of an axis whose words take no parameter: `Without<axis::clip>`.
template <class Axis>
struct Without;

// precision: which numbers compute
struct FP32;
struct TF32;
struct BF16;
struct FP16;
template <class Number>
struct Precision;

// checkpoint: which activations are computed again in backward instead of kept
struct Full;
template <class What>
struct Checkpoint;

// accumulate: how many microbatches make one update
template <std::int64_t N = Dynamic>
struct Accumulate;

// offload, shard, capture, quantize, prune, freeze: their null choices
template <class Where, class... What>
struct Offload;
template <class How>
struct Shard;
template <class What>
struct Capture;
template <class How, class... What>
struct Quantize;
template <class How, class... What>
struct Prune;
template <class... Units>
struct Freeze;

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

// schedule: the learning rate of each step
struct ConstantLR;
struct LinearLR;
struct CosineAnnealingLR;

// objective: what is minimised; left out, the model's own `loss`. Any callable
// (run, model, batch) -> Loss is an objective too.
struct CrossEntropyLoss;
struct MSELoss;

// clip
struct ClipGradNorm;

// observe: what a report tells besides the loss
struct Memory;
template <class What>
struct Observe;

// device: where the model computes
struct On;

/// What a policy does: specialised for every policy, built from its values, derived from `Hooks`.
template <class Policy>
struct Mechanism;

/// The questions that a recipe answers. Each takes one policy, or declares that it takes `many`.
namespace axis {
struct observe {
  static constexpr bool many = true;
};
struct capture {
  using fallback = Capture<Off>;
};
struct shard {
  using fallback = Shard<Off>;
};
struct offload {
  using fallback = Offload<Off>;
};
struct checkpoint {
  using fallback = Checkpoint<Off>;
};
struct precision {
  using fallback = Precision<FP32>;
};
struct prune {
  using fallback = Prune<Off>;
};
struct quantize {
  using fallback = Quantize<Off>;
};
struct accumulate {
  using fallback = Accumulate<1>;
};
struct objective {
  using fallback = Without<objective>;
};
struct clip {
  using fallback = Without<clip>;
};
struct optimizer {
  using fallback = AdamW;
};
struct schedule {
  using fallback = ConstantLR;
};
struct average {
  using fallback = Without<average>;
};
struct freeze {
  using fallback = Freeze<Off>;
};
struct device {
  using fallback = Without<device>;
};
}  // namespace axis

namespace detail {

/// A word that is given another: which ones it takes.
template <class Axis, template <class...> class Word, class... Given>
struct word_of {
  using type = Axis;
  template <class Policy>
  static constexpr bool takes = (std::is_same_v<Policy, Word<Given>> || ...);
  template <template <class...> class Refusal, class Policy>
  using refused = Refusal<Policy, Word<Given>...>;
};

/// The axis of a word declared above; `void` for any other type.
template <class Word>
struct declared_axis {
  using type = void;
};
// clang-format off
template <class A> struct declared_axis<Without<A>> { using type = A; };
template <class N> struct declared_axis<Precision<N>>
    : word_of<axis::precision, Precision, FP32, TF32, BF16, FP16> {};
template <class W> struct declared_axis<Checkpoint<W>>
    : word_of<axis::checkpoint, Checkpoint, Off, Full> {};
template <class W> struct declared_axis<Observe<W>> : word_of<axis::observe, Observe, Memory> {};
template <class... W> struct declared_axis<Offload<W...>> : word_of<axis::offload, Offload, Off> {};
template <class H> struct declared_axis<Shard<H>> : word_of<axis::shard, Shard, Off> {};
template <class W> struct declared_axis<Capture<W>> : word_of<axis::capture, Capture, Off> {};
template <class... W> struct declared_axis<Quantize<W...>>
    : word_of<axis::quantize, Quantize, Off> {};
template <class... W> struct declared_axis<Prune<W...>> : word_of<axis::prune, Prune, Off> {};
template <class... U> struct declared_axis<Freeze<U...>> : word_of<axis::freeze, Freeze, Off> {};
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
template <> struct declared_axis<ConstantLR> { using type = axis::schedule; };
template <> struct declared_axis<LinearLR> { using type = axis::schedule; };
template <> struct declared_axis<CosineAnnealingLR> { using type = axis::schedule; };
template <> struct declared_axis<CrossEntropyLoss> { using type = axis::objective; };
template <> struct declared_axis<MSELoss> { using type = axis::objective; };
template <> struct declared_axis<ClipGradNorm> { using type = axis::clip; };
template <> struct declared_axis<On> { using type = axis::device; };
// clang-format on

// A type has a call operator, whatever its signature, when naming it becomes ambiguous below.
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

/// The axis that a policy answers: declared above, or the `using axis = ...` of a user's own
/// policy; any callable is an objective. `type` is `void` where the type is no policy.
template <class Policy>
struct axis_of : detail::declared_axis<Policy> {};
template <class Policy>
  requires requires { typename Policy::axis; }
struct axis_of<Policy> {
  using type = typename Policy::axis;
};
template <class F>
  requires(!detail::declared<F> && !requires { typename F::axis; } && detail::callable_class<F>)
struct axis_of<F> {
  using type = axis::objective;
};
template <class Result, class... Args>
struct axis_of<Result (*)(Args...)> {
  using type = axis::objective;
};
template <class Policy>
using axis_of_t = typename axis_of<Policy>::type;

/// True for a policy that works unit by unit and can do nothing with a model that shows none:
/// a policy says so by `static constexpr bool needs_units = true`.
template <class Policy>
inline constexpr bool needs_units = false;
template <class Policy>
  requires requires { Policy::needs_units; }
inline constexpr bool needs_units<Policy> = Policy::needs_units;

}  // namespace ikebana
