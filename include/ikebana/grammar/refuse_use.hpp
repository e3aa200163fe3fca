#pragma once
// What a good recipe may still be refused for: a mechanism that cannot carry its policy out, and
// values that do not fit.
#include <ikebana/grammar/refuse.hpp>

namespace ikebana::refuse {

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
