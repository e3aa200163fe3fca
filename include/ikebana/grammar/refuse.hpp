#pragma once
// The recipes that cannot work: one struct, one message, one remedy each. A struct names what was
// written in its template arguments; its message says why that cannot be and what to write instead.
// In which order they are looked for is verdict.hpp.
#include <ikebana/grammar/vocabulary.hpp>

namespace ikebana::detail {
/// Stands for a value where a refusal was spoken. Defined nowhere.
template <class T>
T never();
}  // namespace ikebana::detail

namespace ikebana::refuse {

template <class...>
inline constexpr bool possible = false;

/// There is nothing to refuse.
struct Nothing {};

// Words

template <class Written>
struct NotAPolicy {
  static_assert(possible<Written>,
                "ikebana: this type is not a policy, so a recipe has no place for it. Write a word "
                "of ikebana/grammar/vocabulary.hpp, or give a policy of your own an axis, "
                "e.g. `using axis = ikebana::axis::clip`.");
};
template <class Written, class WriteInstead>
struct MeantAnotherWord {
  static_assert(possible<Written, WriteInstead>,
                "ikebana: the first of these types is not a policy by itself, but it resembles the "
                "second. Write the second instead.");
};
template <class Policy>
struct ModelMissing {
  static_assert(possible<Policy>,
                "ikebana: a recipe begins with the model, and this is a policy. "
                "Write Trainer<Model, Policies...>, or Trainer{model, values...}.");
};
template <class Model, class Other>
struct SecondModel {
  static_assert(
      possible<Model, Other>,
      "ikebana: a trainer trains one model, and the second of these types is another. "
      "Make a trainer for each, or one module that holds both; a model that only helps "
      "belongs into an objective: a lambda (run, model, batch) -> Loss that captures it.");
};
template <class Policy, class Axis>
struct NotAnAxis {
  static_assert(possible<Policy, Axis>,
                "ikebana: the `axis` of this policy is no question that a recipe answers. "
                "Write one of namespace ikebana::axis, e.g. `using axis = ikebana::axis::clip`.");
};
template <class Policy>
struct SameWordTwice {
  static_assert(possible<Policy>,
                "ikebana: this word is written twice, and once is enough. Take one of them away.");
};
template <class Axis, class First, class Second>
struct TwoOnOneAxis {
  static_assert(possible<Axis, First, Second>,
                "ikebana: these two words answer the same question, the axis shown first, and it "
                "takes one answer. Keep the one you want.");
};

// Choices

template <class Written, class... Choices>
struct UnknownChoice {
  static_assert(possible<Written, Choices...>,
                "ikebana: this version does not have the first of these choices; it has the "
                "others. Write one of those, or leave the word out.");
};
template <std::int64_t N>
struct EmptyAccumulate {
  static_assert(possible<Accumulate<N>>,
                "ikebana: an update needs at least one microbatch. "
                "Write Accumulate<N> with N >= 1, or Accumulate<>{.microbatches = n}.");
};

template <class Policy>
struct CountBelowOne {
  static_assert(possible<Policy>,
                "ikebana: the number that this word is given must be one at least. Write e.g. "
                "Checkpoint<Every<2>>, or leave it open and give it as a value: "
                "Checkpoint<Every<>>{.every = n}, Checkpoint<Segments<>>{.segments = n}.");
};

// The model and its loss

template <class Model>
struct NotAModel {
  static_assert(possible<Model>,
                "ikebana: the first argument is not a module that is defined here. Give a holder "
                "made by TORCH_MODULE, a std::shared_ptr to a module, or a type derived from "
                "torch::nn::Module; without const or &, and with its definition included.");
};
template <class Model, class Written>
struct BadUnits {
  static_assert(
      possible<Model, Written>,
      "ikebana: the `units` of this model are not a list of module types. "
      "Write `using units = ikebana::Units<Block>;` with the modules that `run` is given.");
};
template <class Model>
struct NoLoss {
  static_assert(possible<Model>,
                "ikebana: the model has no `loss` and the recipe no objective, so there is nothing "
                "to minimise. Add CrossEntropyLoss, MSELoss or a lambda (run, model, batch) -> "
                "Loss, or write `template <class Run> ikebana::Loss loss(Run& run, const Batch& "
                "batch)` in the model.");
};
template <class Policy, class Model>
struct NeedsUnits {
  static_assert(possible<Policy, Model>,
                "ikebana: this policy works unit by unit, and the model shows no units. "
                "Write `using units = ikebana::Units<Block>;` in the model, or specialise "
                "ikebana::UnitsOf for it.");
};
template <class Policy, class Unit, class Model>
struct NamesNoUnit {
  static_assert(possible<Policy, Unit, Model>,
                "ikebana: the first of these types names the second, which the third, the model, "
                "does not declare as a unit. Add it to `using units = ikebana::Units<...>` of the "
                "model, or choose by a rule: Freeze<>{.match = named(\"embed.*\")}, "
                "Checkpoint<Only<>>{.match = rule}.");
};
template <class Unit, class Model>
struct UndeclaredUnit {
  static_assert(possible<Unit, Model>,
                "ikebana: `run` was given a module that the model does not declare as a unit. "
                "Add its type to `using units = ikebana::Units<...>` of the model, or call it "
                "without `run`.");
};
template <class Model>
struct ForwardWithoutRun {
  static_assert(possible<Model>,
                "ikebana: the model declares units, but its `forward` takes no `run`, so an "
                "objective cannot reach them. "
                "Write `template <class Run> torch::Tensor forward(Run& run, torch::Tensor x)`.");
};
template <class Model, class Input>
struct ForwardTakesOtherArguments {
  static_assert(
      possible<Model, Input>,
      "ikebana: the `forward` of this model cannot be called with the batch's input "
      "alone, as this objective does. "
      "Write the objective as a lambda (run, model, batch) -> Loss that calls the model.");
};
template <class Model, class Batch>
struct LossTakesOtherArguments {
  static_assert(possible<Model, Batch>,
                "ikebana: the `loss` of this model cannot be called with a run and this batch. "
                "Write `template <class Run> ikebana::Loss loss(Run& run, const Batch& batch)`.");
};
template <class Objective, class Batch>
struct ObjectiveTakesOtherArguments {
  static_assert(possible<Objective, Batch>,
                "ikebana: this objective cannot be called with a run, the model and this batch. "
                "Write `[](auto& run, auto& model, const Batch& batch) -> ikebana::Loss { ... }`.");
};
template <class Batch>
struct NoInputOrTarget {
  static_assert(
      possible<Batch>,
      "ikebana: this objective needs a batch with `input` and `target` (or data, x; "
      "label, y; or a pair). "
      "Name the fields so, or write the objective as a lambda (run, model, batch) -> Loss.");
};
template <class Result>
struct NotALoss {
  static_assert(possible<Result>,
                "ikebana: a loss must come with the count it sums over, or microbatches weigh "
                "wrong, and this type has none. "
                "Return ikebana::Loss{sum, count}, with a sum as torch::kSum gives it.");
};

// What carries a policy out

template <class Policy>
struct NoMechanism {
  static_assert(possible<Policy>,
                "ikebana: nothing carries this policy out. Include <ikebana.hpp>; for a policy of "
                "your own write `template <> struct ikebana::Mechanism<YourPolicy> : "
                "ikebana::Hooks`.");
};
template <class Policy>
struct BadMechanism {
  static_assert(possible<Policy>,
                "ikebana: the Mechanism of this policy must derive from ikebana::Hooks, be built "
                "from the policy's value, and hold it. "
                "Write `YourPolicy values; explicit Mechanism(YourPolicy v) : values(v) {}`.");
};
template <class Policy>
struct HookTakesOtherArguments {
  static_assert(
      possible<Policy>,
      "ikebana: the Mechanism of this policy has a hook whose parameters are not those of "
      "the hook of that name in ikebana::Hooks, so no step could call it. "
      "Write it as ikebana/hooks.hpp does.");
};
template <class Policy>
struct MayThrowInUpdate {
  static_assert(possible<Policy>,
                "ikebana: a hook of this policy's Mechanism that runs after `prepare` may throw, "
                "which would leave an update half done. "
                "Mark its update, after_update, end_step and abort noexcept.");
};

// Values

template <class Given, class Model>
struct NotTheModel {
  static_assert(possible<Given, Model>,
                "ikebana: a trainer is made from its model first, and the first of these types "
                "does not convert to the second. Write Trainer<Model, Policies...>{model, "
                "values...}.");
};
template <class Value>
struct ValueNotInRecipe {
  static_assert(possible<Value>,
                "ikebana: this value's type is not a word of the recipe, so it would be ignored. "
                "Add the type to Trainer<...>, or leave the value out.");
};
template <class Value>
struct ValueTwice {
  static_assert(
      possible<Value>,
      "ikebana: two values were given for this word, and one would be ignored. Give one.");
};
template <class Policy>
struct ValueMissing {
  static_assert(possible<Policy>,
                "ikebana: this word has no default value. Give one to the constructor, "
                "e.g. Trainer<Model, Accumulate<>>{model, Accumulate<>{.microbatches = 8}}, or "
                "Freeze<>{.match = named(\"embed.*\")}.");
};
template <class Policy>
struct NotInRecipe {
  static_assert(possible<Policy>,
                "ikebana: this type is not a word of the recipe, so the trainer has no values of "
                "it. Add it to Trainer<...>, or ask for a word that is there.");
};

}  // namespace ikebana::refuse
