#pragma once
// The recipes that cannot work, one struct each: its condition holds what was written, with the
// types, and its message the rule that this breaks and what to write instead. The order of the
// checks is in checks/policies.hpp and checks/recipe.hpp.
#include <ikebana/grammar/sentence.hpp>
#include <ikebana/grammar/vocabulary.hpp>

namespace ikebana::detail {
/// Stands for a value if a refusal was reported. Has no definition.
template <class T>
T unevaluated();
}  // namespace ikebana::detail

namespace ikebana::refuse {

template <Sentence>
inline constexpr bool possible = false;

/// There is nothing to refuse.
struct Nothing {};

// The following refuses policies.

template <class Written>
struct NotAPolicy {
  static_assert(possible<quoted<Written> + " is not a policy">,
                "ikebana: a recipe is made of policies, and one of its types is not a policy. "
                "Remove it, write a policy of ikebana/grammar/vocabulary.hpp, or give your own "
                "policy an axis, e.g. `using axis = ikebana::axis::clip`.");
};
template <class Written, class Policy>
struct MeantAnotherPolicy {
  static_assert(possible<quoted<Written> + " is not a policy; write " + quoted<Policy>>,
                "ikebana: a recipe is made of policies, and one of its types only resembles a "
                "policy. Write that policy, e.g. Precision<BF16> for BF16, On{torch::kCUDA} for "
                "torch::kCUDA, or ikebana::AdamW for torch::optim::AdamW or const AdamW.");
};
template <class Policy>
struct ModelMissing {
  static_assert(possible<quoted<Policy> + " is a policy, and stands in the place of the model">,
                "ikebana: a recipe begins with the model, and this one begins with a policy. "
                "Write Trainer<Model, Policies...>, or Trainer{model, values...}.");
};
template <class Model, class Other>
struct SecondModel {
  static_assert(
      possible<quoted<Model> + " and " + quoted<Other> + " are both models; a trainer takes one">,
      "ikebana: a trainer trains one model, and this recipe names two. "
      "Make a trainer for each, or one module that holds both; a model that only helps "
      "belongs in an objective: a lambda (run, model, batch) -> Loss that captures it.");
};
template <class Policy, class Axis>
struct NotAnAxis {
  static_assert(
      possible<quoted<Policy> + " has the axis " + quoted<Axis> + ", which no recipe has">,
      "ikebana: the `axis` of a policy must be one of namespace ikebana::axis, or derive from "
      "ikebana::axis::own. Write one of them, e.g. `using axis = ikebana::axis::clip`, or make "
      "your own: `struct your_axis : ikebana::axis::own {};`.");
};
template <class Policy>
struct PolicyTwice {
  static_assert(possible<quoted<Policy> + " is written twice">,
                "ikebana: a recipe names each policy once, and this one repeats a policy. "
                "Remove one of the two.");
};
template <class Axis, class First, class Second>
struct TwoPoliciesSet {
  static_assert(possible<quoted<First> + " and " + quoted<Second> + " both set the " + name<Axis> +
                         "; a trainer takes one">,
                "ikebana: two policies of this recipe set the same axis, and a trainer takes one "
                "policy per axis. Remove one of the two.");
};

// The following refuses choices of a policy.

template <class Written, class... Choices>
struct UnknownChoice {
  static_assert(
      possible<quoted<Written> + " does not exist; there is " + list_of<Choices...>>,
      "ikebana: a policy of this recipe has an argument that this version does not "
      "know. Write one of the choices that exist, or leave the policy out; a choice of your "
      "own needs an axis: `using axis = ikebana::axis::precision;` in its "
      "specialisation.");
};
template <class Policy>
struct NotACount {
  static_assert(possible<quoted<Policy> + " has an argument that is not a count">,
                "ikebana: the number of microbatches must be a whole number, 1 or more. "
                "Write Accumulate<N>, Accumulate<>{.microbatches = n} or Accumulate<Fit<Max>>.");
};
template <auto N>
struct EmptyAccumulate {
  static_assert(possible<quoted<Accumulate<N>> + " has a count below 1">,
                "ikebana: an update needs at least one microbatch. "
                "Write Accumulate<N> with N >= 1, or Accumulate<>{.microbatches = n}.");
};
template <class Policy>
struct EmptyFit {
  static_assert(possible<quoted<Policy> + " has a maximum below 1">,
                "ikebana: an update needs at least one microbatch. Write Accumulate<Fit<Max>> with "
                "Max >= 1, or Accumulate<Fit<>>{.max = n}.");
};
template <class Policy>
struct CountBelowOne {
  static_assert(possible<quoted<Policy> + " has a count below 1">,
                "ikebana: the count of a checkpoint policy must be 1 or more. Write e.g. "
                "Checkpoint<Every<2>>, or leave it open and give it as a value: "
                "Checkpoint<Every<>>{.every = n}, Checkpoint<Segments<>>{.segments = n}.");
};
template <class Policy>
struct BudgetBelowOne {
  static_assert(possible<quoted<Policy> + " has a budget below 1 byte">,
                "ikebana: the budget of a checkpoint policy is in bytes, and must be 1 or more. "
                "Write e.g. Checkpoint<Budget<GiB(8)>>, or leave it open and give it as a value: "
                "Checkpoint<Budget<>>{.limit = GiB(8)}.");
};
template <class Policy>
struct NoRanksInCopy {
  static_assert(possible<quoted<Policy> + " has a number of ranks below 1">,
                "ikebana: the number of HSDP is that of the ranks that share one copy of the "
                "model. Write Shard<HSDP<N>> with N >= 1, such as the ranks of one host.");
};
template <class Written>
struct NotAnOptimizer {
  static_assert(
      possible<quoted<InBackward<Written>> + " holds " + quoted<Written> +
               ", which is not an optimizer">,
      "ikebana: the argument of InBackward must be an optimizer. Write e.g. InBackward<AdamW>.");
};
template <class InBackwardPolicy, class Other>
struct NeedsAllGradients {
  static_assert(possible<quoted<Other> + " needs all gradients before the update, and " +
                         quoted<InBackwardPolicy> + " updates each parameter in backward">,
                "ikebana: InBackward updates each parameter as soon as its gradient exists, and "
                "another policy of this recipe must see all gradients first. Remove that policy, "
                "or write the optimizer without InBackward.");
};
template <class InBackwardPolicy, class OnRanks>
struct UpdatesBeforeSum {
  static_assert(possible<quoted<InBackwardPolicy> + " updates each parameter in backward, before " +
                         quoted<OnRanks> + " has its gradient of all ranks">,
                "ikebana: InBackward updates each parameter as soon as its gradient exists, and on "
                "several ranks gradients must be summed over them first. Write the optimizer "
                "without InBackward; to keep fewer gradients in memory, which is what InBackward "
                "is for, write Shard<ZeRO2> or Shard<FSDP>: each rank keeps its rows of them.");
};

// The following refuses the model and its loss.

template <class Model>
struct NotAModel {
  static_assert(possible<quoted<Model> + " is not a module that is defined here">,
                "ikebana: the model of a recipe must be a module. Write a holder made by "
                "TORCH_MODULE, a std::shared_ptr to a module, or a type derived from "
                "torch::nn::Module; without const or &, and with its definition included.");
};
template <class Model, class Written>
struct BadUnits {
  static_assert(possible<quoted<Model> + " declares its units with " + quoted<Written> +
                         "; they must be a list of module types">,
                "ikebana: the `units` of a model must be a list of module types. Write "
                "`using units = ikebana::Units<Block>;` with the modules that `run` is given.");
};
template <class Model>
struct NoLoss {
  static_assert(possible<quoted<Model> + " has no loss, and the recipe has no objective">,
                "ikebana: the model has no `loss` and the recipe no objective, so there is nothing "
                "to minimise. Add CrossEntropyLoss, MSELoss or a lambda (run, model, batch) -> "
                "Loss, or write `template <class Run> ikebana::Loss loss(Run& run, const Batch& "
                "batch)` in the model.");
};
template <class Policy, class Model>
struct NeedsUnits {
  static_assert(
      possible<quoted<Policy> + " works unit by unit, and " + quoted<Model> + " declares no units">,
      "ikebana: a policy of this recipe works unit by unit, and the model declares no "
      "units. Write `using units = ikebana::Units<Block>;` in the model, or specialise "
      "ikebana::UnitsOf for it.");
};
template <class Policy, class Unit, class Model>
struct NamesNoUnit {
  static_assert(possible<quoted<Policy> + " names " + quoted<Unit> + ", which is not a unit of " +
                         quoted<Model>>,
                "ikebana: a policy of this recipe names a module that the model does not declare "
                "as a unit. Add it to `using units = ikebana::Units<...>` of the model, or choose "
                "by a rule: Freeze<>{.match = named(\"embed.*\")}, Checkpoint<Only<>>{.match = "
                "rule}.");
};
template <class Unit, class Model>
struct UndeclaredUnit {
  static_assert(possible<quoted<Unit> + " was given to run, and is not a unit of " + quoted<Model>>,
                "ikebana: `run` was given a module that the model does not declare as a unit. "
                "Add its type to `using units = ikebana::Units<...>` of the model, or call it "
                "without `run`.");
};
template <class Model>
struct ForwardWithoutRun {
  static_assert(possible<quoted<Model> + " has units and a forward that takes no run">,
                "ikebana: the model declares units, but its `forward` takes no `run`, so "
                "policies cannot reach them. "
                "Write `template <class Run> torch::Tensor forward(Run& run, torch::Tensor x)`.");
};
template <class Model, class Input>
struct ForwardTakesOtherArguments {
  static_assert(
      possible<"the forward of " + quoted<Model> + " cannot be called with " + quoted<Input>>,
      "ikebana: the `forward` of the model cannot be called with the batch's input "
      "alone, as this objective does. "
      "Write the objective as a lambda (run, model, batch) -> Loss that calls the model.");
};
template <class Model, class Batch>
struct LossTakesOtherArguments {
  static_assert(possible<"the loss of " + quoted<Model> + " cannot be called with a run and " +
                         quoted<Batch>>,
                "ikebana: the `loss` of the model cannot be called with a run and this batch. "
                "Write `template <class Run> ikebana::Loss loss(Run& run, const Batch& batch)`.");
};
template <class Objective, class Batch>
struct ObjectiveTakesOtherArguments {
  static_assert(
      possible<quoted<Objective> + " cannot be called with a run, the model and " + quoted<Batch>>,
      "ikebana: this objective cannot be called with a run, the model and this batch. "
      "Write `[](auto& run, auto& model, const Batch& batch) -> ikebana::Loss { ... }`.");
};
template <class Owner, class Batch>
struct CountTakesOtherArguments {
  static_assert(possible<"count of " + quoted<Owner> + " cannot be called with " + quoted<Batch>>,
                "ikebana: a count takes other arguments than this batch, so no step would call it. "
                "Write `ikebana::Count count(const Batch& batch)`, or give it another name.");
};
template <class Batch>
struct NoInputOrTarget {
  static_assert(
      possible<quoted<Batch> + " has no input or no target">,
      "ikebana: this objective needs a batch with `input` and `target` (or data, x; "
      "label, y; or a pair). "
      "Name the fields so, or write the objective as a lambda (run, model, batch) -> Loss.");
};
template <class Batch>
struct MoreThanInputAndTarget {
  static_assert(possible<quoted<Batch> + " holds more than an input and a target">,
                "ikebana: of a tuple or an array a built-in objective and Accuracy take the first "
                "element as the input and the second as the target, and would ignore the others. "
                "Write a struct with fields `input` and `target`, or the objective as a lambda "
                "(run, model, batch) -> Loss, and the metric as a struct of your own.");
};
template <class Result>
struct NotALoss {
  static_assert(possible<"a loss returns " + quoted<Result> + ", which has no count">,
                "ikebana: a loss must come with the count it sums over, or microbatches weigh "
                "wrong. Return ikebana::Loss{sum, count}, with a sum as torch::kSum gives it.");
};

}  // namespace ikebana::refuse
