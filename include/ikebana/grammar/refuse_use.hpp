#pragma once
// Defines the refusals of a program of TorchScript, of an optimizer that others hold, of a
// mechanism that cannot carry its policy out, and of values that do not fit.
#include <ikebana/grammar/refuse.hpp>

namespace ikebana::refuse {

// The following refuses a model of another language.

template <class Model>
struct ScriptedModel {
  static_assert(possible<quoted<Model> + " is a program of TorchScript, not a module of C++">,
                "ikebana: the model of a recipe is a module of C++, and this one holds a program "
                "that was made in Python. Write its layers as a torch::nn::Module, and load its "
                "weights: torch.save(torch.jit.load(path).state_dict(), 'weights.pth') in Python, "
                "scripts/pth_to_safetensors.py, then ikebana::load_weights(model, path). To call "
                "it as it is, without training it, capture it in an objective: a lambda "
                "(run, model, batch) -> Loss.");
};

template <class Written>
struct LossOfTorch {
  static_assert(
      possible<quoted<Written> + " is a loss of LibTorch, and there is no policy for it">,
      "ikebana: a loss of LibTorch is a module, which a recipe does not call, and this "
      "one has no policy of its name. Write the objective as a lambda (run, model, batch) "
      "-> Loss that calls it with torch::kSum, and gives the count.");
};

// The following refuses optimizers of optimizers.

template <class Policy, class Written>
struct PartIsNoOptimizer {
  static_assert(
      possible<quoted<Policy> + " holds " + quoted<Written> + ", which is not an optimizer">,
      "ikebana: both arguments of Combined must be optimizers. Write e.g. Combined<Muon, Lion>.");
};
template <class Policy, class Written>
struct NotInBackward {
  static_assert(
      possible<quoted<Policy> + " holds " + quoted<Written> +
               ", and one of them updates in backward">,
      "ikebana: InBackward updates each parameter alone, as soon as its gradient exists, and this "
      "optimizer updates several at once. Write it without InBackward.");
};
template <class Policy>
struct NeedsSeveralLosses {
  static_assert(possible<quoted<Policy> + " computes the loss several times in a step">,
                "ikebana: a trainer's step computes the loss once, and this optimizer calls a "
                "closure that computes it again. Write another optimizer, or call this one in a "
                "loop of your own.");
};

// The following refuses mechanisms.

template <class Policy>
struct NoMechanism {
  static_assert(possible<quoted<Policy> + " has no Mechanism">,
                "ikebana: no mechanism carries out a policy of this recipe. Include <ikebana.hpp>; "
                "for a policy of your own write `template <> struct "
                "ikebana::Mechanism<YourPolicy>`, derived from the hooks of its axis: "
                "ikebana::ClipHooks for `clip`.");
};
template <class Policy>
struct NotIncluded {
  static_assert(
      possible<quoted<Policy> + " trains on several ranks: #include <ikebana/shard.hpp>">,
      "ikebana: a policy of this recipe trains on several ranks, which ikebana.hpp does not "
      "include, since that needs LibTorch's process groups. Write #include <ikebana/shard.hpp> "
      "where the trainer is made.");
};
template <class Policy>
struct ObserveNotIncluded {
  static_assert(possible<quoted<Policy> + " needs an include">,
                "ikebana: a policy of this recipe measures what few programs measure. Write "
                "`#include <ikebana/observe.hpp>`.");
};
template <class Policy, class Base>
struct BadMechanism {
  static_assert(
      possible<"the Mechanism of " + quoted<Policy> + " lacks " + quoted<Base> + " or values">,
      "ikebana: the Mechanism of a policy must derive from the hooks of the policy's "
      "axis (ikebana/hooks.hpp), publicly, be built from the policy's value, and hold it. "
      "Write `YourPolicy values; explicit Mechanism(YourPolicy v) : values(v) {}`.");
};
template <class Policy, class Hook>
struct HookTakesOtherArguments {
  static_assert(possible<"the Mechanism of " + quoted<Policy> + " has the hook " + name<Hook> +
                         " with other parameters">,
                "ikebana: the Mechanism of a policy has a hook whose parameters, result or const "
                "are not those of the hook of that name in the base that it derives from, so no "
                "step could call it, or its changes would be lost. Write it as ikebana/hooks.hpp "
                "does: what a hook changes is passed by reference.");
};
template <class Policy, class Axis, class Hook, class... Asked>
struct HookNeverAsked {
  static_assert(
      possible<"the Mechanism of " + quoted<Policy> + " has the hook " + name<Hook> +
               ", which is asked of " + names_of<Asked...> + ", and not of " + name<Axis>>,
      "ikebana: the Mechanism of a policy has a hook that its policy's axis is never "
      "asked, so it would never be called. Write a policy for each axis whose hooks you "
      "need (ikebana/hooks.hpp); a member that is no hook needs another name.");
};
template <class Policy, class Old, class Hook>
struct RenamedHook {
  static_assert(
      possible<"the Mechanism of " + quoted<Policy> + " has the hook " + name<Old> + ", which is " +
               name<Hook> + " now">,
      "ikebana: the Mechanism of a policy has a hook by its former name, so it would never "
      "be called. Write the new name; docs/migrate.md lists what changed.");
};
template <class Policy, class Hook, class Declaration>
struct UndeclaredHook {
  static_assert(possible<"the Mechanism of " + quoted<Policy> + " has the hook " + name<Hook> +
                         " and does not declare " + name<Declaration>>,
                "ikebana: the Mechanism of a policy has a hook that is called only where it is "
                "declared. Add `static constexpr bool moves_parameters = true;` for gather, "
                "`gathers_ahead` for begin_gather, `listens_to_backward` for the hooks of a "
                "unit's backward.");
};
template <class Policy, class Other>
struct TwoCopiesOfValues {
  static_assert(possible<"the Mechanism of " + quoted<Policy> + " derives from that of " +
                         quoted<Other> + ", whose hooks read values of their own">,
                "ikebana: the Mechanism of a policy derives from that of another policy, and each "
                "has values: trainer.get<Policy>() would change those that the inherited hooks do "
                "not read. Hold a Mechanism of the other policy as a member, and set its values "
                "before you call it; or derive both from a base that takes the policy as a "
                "template parameter.");
};
template <class Policy>
struct ReplacedMechanism {
  static_assert(possible<quoted<Policy> + " is a policy of ikebana, and its Mechanism is not">,
                "ikebana: the program specialises the Mechanism of a policy of this library, "
                "which takes the place of the library's. Define a policy of your own, with `using "
                "axis`, and specialise ikebana::Mechanism for that.");
};
template <class Policy>
struct MayThrowAfterUpdate {
  static_assert(possible<"the Mechanism of " + quoted<Policy> + " may throw after the update">,
                "ikebana: a hook of a policy's Mechanism that runs after the optimizer's update "
                "may throw, which would leave a step half done. "
                "Mark its after_update, end_step and abort noexcept, and an average's restart.");
};

// The following refuses values.

template <class Given, class Model>
struct NotTheModel {
  static_assert(possible<quoted<Given> + " does not convert to " + quoted<Model>>,
                "ikebana: the first argument of a trainer's constructor must be its model, "
                "or a callable without arguments that returns it. "
                "Write Trainer<Model, Policies...>{model, values...}.");
};
template <class Trainer>
struct CopiedTrainer {
  static_assert(possible<quoted<Trainer> + " is copied">,
                "ikebana: a trainer cannot be copied, since its copy would train the same model. "
                "Pass it by reference, as Trainer& or auto&, or move it: std::move(trainer).");
};
template <class Trainer>
struct TrainerWithoutModel {
  static_assert(possible<quoted<Trainer> + " is made without a model">,
                "ikebana: a trainer is given its model when it is made. Initialise it: "
                "Trainer trainer{model, AdamW{}}; a member in the list of its class's constructor, "
                "or hold it in a std::optional and emplace it later.");
};
template <class Given, class Number>
struct ReportIsNoNumber {
  static_assert(possible<quoted<Given> + " is no " + quoted<Number>>,
                "ikebana: what step and evaluate return is a report. Read the loss of it: "
                "trainer.step(batch).loss(), trainer.evaluate(loader).loss.");
};
template <class Module>
struct ModuleByValue {
  static_assert(possible<quoted<Module> + " is a module by value; write std::make_shared<" +
                         name<Module> + ">()">,
                "ikebana: a trainer shares its model with the program, and a module of LibTorch is "
                "shared by a pointer. Write std::make_shared of its type and arguments, or make it "
                "by the holder that TORCH_MODULE declares: Net(config) for NetImpl.");
};
template <class Value>
struct ValueNotInRecipe {
  static_assert(possible<quoted<Value> + " is not a policy of the recipe">,
                "ikebana: the type of a value given to this trainer is not a policy of its recipe, "
                "so the value would be ignored. "
                "Add the type to Trainer<...>, or leave the value out.");
};
template <class Value>
struct ValueTwice {
  static_assert(possible<quoted<Value> + " is given twice">,
                "ikebana: two values were given for one policy, and one would be ignored. "
                "Give one.");
};
template <class Policy>
struct ValueMissing {
  static_assert(possible<quoted<Policy> + " has no default value">,
                "ikebana: a policy of this recipe has no default value. Give one to the "
                "constructor, e.g. Trainer<Model, Accumulate<>>{model, "
                "Accumulate<>{.microbatches = 8}}, or Freeze<>{.match = named(\"embed.*\")}.");
};
template <class Policy>
struct NotInRecipe {
  static_assert(possible<quoted<Policy> + " is not a policy of the recipe">,
                "ikebana: this type is not a policy of the trainer's recipe, so the trainer has no "
                "values of it. Add it to Trainer<...>, or ask for a policy of the recipe.");
};

}  // namespace ikebana::refuse
