#pragma once
// The recipes that cannot work: one struct, one message, one remedy each. A struct names what was
// written in its template arguments; its message says why that cannot be and what to write instead.
// In which order they are looked for is verdict.hpp.
#include <ikebana/grammar/vocabulary.hpp>

namespace ikebana::detail {
/// Stands for a value where a refusal was spoken. Defined nowhere.
template <class T>
T unevaluated();
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
struct MeantAnotherPolicy {
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
struct PolicyTwice {
  static_assert(possible<Policy>,
                "ikebana: this word is written twice, and once is enough. Take one of them away.");
};
template <class Axis, class First, class Second>
struct TwoPoliciesOnOneAxis {
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

template <class Written>
struct NotAnOptimizer {
  static_assert(possible<Written>,
                "ikebana: InBackward is given an optimizer, and this type is none. "
                "Write e.g. InBackward<AdamW>.");
};
template <class Policy, class Other>
struct NeedsAllGradients {
  static_assert(possible<Policy, Other>,
                "ikebana: the first of these words updates each parameter as its gradient arrives, "
                "and the second must see all gradients before. Take the second away, or write the "
                "optimizer without InBackward.");
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

}  // namespace ikebana::refuse
