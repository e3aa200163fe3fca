#pragma once
// The recipes that cannot work: one struct, one message, one remedy each. A struct names the words at
// fault in its template arguments; its message says why they cannot be and what to write instead.
#include <ikebana/grammar/compose.hpp>
#include <ikebana/grammar/units.hpp>

namespace torch::optim {
class AdamW;
class Adam;
class SGD;
}  // namespace torch::optim

namespace ikebana::refuse {

template <class...>
inline constexpr bool possible = false;

struct Nothing {};

template <class Written>
struct NotAPolicy {
  static_assert(possible<Written>,
                "ikebana: this type is not a policy, so a recipe has no place for it. "
                "Write a word of grammar/vocabulary.hpp, or give your policy `using axis = ...`.");
};
template <class Written, class WriteInstead>
struct MeantAnotherWord {
  static_assert(possible<Written>,
                "ikebana: the first type shown is not a policy, but it resembles one. "
                "Write the second type shown instead.");
};
template <class Written>
struct ModelMissing {
  static_assert(possible<Written>,
                "ikebana: a recipe begins with the model, and this is a policy. "
                "Write Trainer<Model, Policies...>, or Trainer{model, values...}.");
};
template <class Policy, class Axis>
struct NotAnAxis {
  static_assert(possible<Policy>,
                "ikebana: the `axis` of this policy is no question that a recipe answers. "
                "Write one of namespace ikebana::axis, e.g. `using axis = ikebana::axis::clip`.");
};
template <class Number>
struct UnknownPrecision {
  static_assert(possible<Number>,
                "ikebana: Precision does not know this choice. "
                "Write Precision<FP32>, Precision<TF32>, Precision<BF16> or Precision<FP16>.");
};
template <class What>
struct UnknownCheckpoint {
  static_assert(possible<What>,
                "ikebana: Checkpoint does not know this choice. "
                "Write Checkpoint<Full>, or leave it out to keep every activation.");
};
template <class What>
struct UnknownObserve {
  static_assert(possible<What>,
                "ikebana: Observe does not know this choice. Write Observe<Memory>.");
};
template <class Policy>
struct UnknownChoice {
  static_assert(possible<Policy>,
                "ikebana: this axis has no such choice in this version. "
                "Leave the word out; its only choice here is Off.");
};
template <std::int64_t N>
struct EmptyAccumulate {
  static_assert(possible<Accumulate<N>>,
                "ikebana: an update needs at least one microbatch. "
                "Write Accumulate<N> with N >= 1, or Accumulate<>{.microbatches = n}.");
};
template <class First, class Second>
struct TwoOnOneAxis {
  static_assert(possible<First>,
                "ikebana: these two words answer the same question, and it takes one answer. "
                "Keep one of the two types shown.");
};
template <class Policy>
struct SameWordTwice {
  static_assert(possible<Policy>,
                "ikebana: this word is written twice. Keep one of the two.");
};
template <class Model>
struct NoLoss {
  static_assert(possible<Model>,
                "ikebana: the model has no `loss` and the recipe no objective: nothing to minimise. "
                "Add CrossEntropyLoss, MSELoss or a lambda (run, model, batch) -> Loss, or write "
                "`template <class Run> ikebana::Loss loss(Run& run, const Batch& batch)` in it.");
};
template <class Policy, class Model>
struct NeedsUnits {
  static_assert(possible<Policy>,
                "ikebana: this policy works unit by unit, and the model shows no units. "
                "Write `using units = ikebana::Units<Block>;` in it, or specialise UnitsOf.");
};
template <class Policy>
struct NoMechanism {
  static_assert(possible<Policy>,
                "ikebana: nothing carries this policy out. Include <ikebana.hpp>; for a policy of your "
                "own write `template <> struct ikebana::Mechanism<YourPolicy> : ikebana::Hooks`.");
};
template <class Policy>
struct BadMechanism {
  static_assert(possible<Policy>,
                "ikebana: the Mechanism of this policy must be built from its values, hold them in a "
                "member `values`, and derive from Hooks. Write `explicit Mechanism(YourPolicy v)`.");
};
template <class Policy>
struct MayThrowInUpdate {
  static_assert(possible<Policy>,
                "ikebana: a hook that runs after `prepare` may throw, which would leave an update half "
                "done. Mark update, after_update and end_step of its Mechanism noexcept.");
};
template <class Value>
struct ValueNotInRecipe {
  static_assert(possible<Value>,
                "ikebana: this value's type is not a word of the recipe, so it would be ignored. "
                "Add the type to Trainer<...>, or leave the value out.");
};
template <class Value>
struct ValueTwice {
  static_assert(possible<Value>, "ikebana: two values were given for this word. Give one.");
};
template <class Policy>
struct ValueMissing {
  static_assert(possible<Policy>,
                "ikebana: this word has no default value. Give one to the constructor, "
                "e.g. Trainer<Model, Accumulate<>>{model, Accumulate<>{.microbatches = 8}}.");
};
template <class Unit, class Model>
struct UndeclaredUnit {
  static_assert(possible<Unit>,
                "ikebana: `run` was given a module that the model does not declare as a unit. "
                "Add its type to `using units = ikebana::Units<...>` of the model.");
};
template <class Model>
struct ForwardWithoutRun {
  static_assert(possible<Model>,
                "ikebana: the model declares units, but its `forward` takes no `run`, so an objective "
                "cannot reach them. Write `template <class Run> auto forward(Run& run, Tensor x)`.");
};
template <class Result>
struct NotALoss {
  static_assert(possible<Result>,
                "ikebana: a loss must come with the count it sums over, or microbatches weigh wrong. "
                "Return ikebana::Loss{sum, count}, e.g. from a loss with torch::kSum.");
};
template <class Model>
struct NotAModel {
  static_assert(possible<Model>,
                "ikebana: the first argument is not a module. Give a holder made by TORCH_MODULE, "
                "a std::shared_ptr to a module, or a type derived from torch::nn::Module.");
};

template <class Written>
struct nearest {
  using type = void;
};
// clang-format off
template <> struct nearest<FP32> { using type = Precision<FP32>; };
template <> struct nearest<TF32> { using type = Precision<TF32>; };
template <> struct nearest<BF16> { using type = Precision<BF16>; };
template <> struct nearest<FP16> { using type = Precision<FP16>; };
template <> struct nearest<Full> { using type = Checkpoint<Full>; };
template <> struct nearest<Memory> { using type = Observe<Memory>; };
template <> struct nearest<torch::optim::AdamW> { using type = AdamW; };
template <> struct nearest<torch::optim::Adam> { using type = Adam; };
template <> struct nearest<torch::optim::SGD> { using type = SGD; };
template <std::int64_t N> struct nearest<std::integral_constant<std::int64_t, N>> { using type = Accumulate<N>; };
template <class Axis> requires requires { typename Axis::fallback; }
struct nearest<Axis> { using type = typename Axis::fallback; };
// clang-format on
template <class Written>
  requires(!std::is_same_v<Written, std::remove_cvref_t<std::remove_pointer_t<Written>>>)
struct nearest<Written> {
  using bare = std::remove_cvref_t<std::remove_pointer_t<Written>>;
  using type = std::conditional_t<std::is_void_v<axis_of_t<bare>>, void, bare>;
};

// A choice is known when it is listed here, or when the user defined it and its `axis`.
template <class Policy>
struct choice {
  using refusal = Nothing;
};
// clang-format off
template <class T, class... Known> inline constexpr bool among = (std::is_same_v<T, Known> || ...);
template <class P> concept users_own = requires { typename P::axis; };
template <class N> requires(!among<N, FP32, TF32, BF16, FP16> && !users_own<Precision<N>>)
struct choice<Precision<N>> { using refusal = UnknownPrecision<N>; };
template <class W> requires(!among<W, Full, Off> && !users_own<Checkpoint<W>>)
struct choice<Checkpoint<W>> { using refusal = UnknownCheckpoint<W>; };
template <class W> requires(!among<W, Memory> && !users_own<Observe<W>>)
struct choice<Observe<W>> { using refusal = UnknownObserve<W>; };
template <std::int64_t N> requires(N < 1 && N != Dynamic)
struct choice<Accumulate<N>> { using refusal = EmptyAccumulate<N>; };
template <template <class...> class Word, class... W>
  requires(among<Word<Off>, Shard<Off>, Offload<Off>, Capture<Off>, Quantize<Off>, Prune<Off>, Freeze<Off>> &&
           !std::is_same_v<Word<W...>, Word<Off>> && !users_own<Word<W...>>)
struct choice<Word<W...>> { using refusal = UnknownChoice<Word<W...>>; };
// clang-format on

}  // namespace ikebana::refuse
