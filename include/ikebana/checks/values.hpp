#pragma once
// Checks and holds the values given to a trainer's constructor, by type.
#include <ikebana/checks/policies.hpp>
#include <ikebana/core/many.hpp>
#include <tuple>

namespace ikebana::detail {

/// A callable that returns a model, and is not a model itself.
template <class F>
concept maker = !refuse::module_type<std::remove_cvref_t<F>> && std::is_invocable_v<F&> &&
                !std::is_void_v<std::invoke_result_t<F&>>;
/// The model that a maker returns. Clang asks for it before it asks whether there is a maker.
template <class F>
struct made_by {};
template <maker F>
struct made_by<F> {
  using type = std::decay_t<std::invoke_result_t<F&>>;
};
/// A model that a trainer keeps by this handle, or a callable that returns one.
template <class Given, class Handle>
concept gives_model = std::is_convertible_v<Given, Handle> ||
                      (maker<Given> && std::is_convertible_v<std::invoke_result_t<Given&>, Handle>);

/// Says why a value that is neither the model nor a maker is refused as the first argument.
template <class Given, class Model>
struct model_refusal : refuse::is<refuse::NotTheModel<Given, Model>> {};
template <refuse::module_type Given, class Model>
  requires std::is_same_v<impl_of_t<Model>, Given>
struct model_refusal<Given, Model> : refuse::is<refuse::ModuleByValue<Given>> {};
template <class Given, class Model>
using model_refusal_t = typename model_refusal<Given, Model>::type;

template <class Policy, class Chosen>
inline constexpr bool is_chosen = std::is_same_v<Policy, Chosen>;
template <class Policy, class... Policies>
inline constexpr bool is_chosen<Policy, Many<Policies...>> =
    (std::is_same_v<Policy, Policies> || ...);
/// True for a policy that a recipe has, or has by default.
template <class Policy, class Recipe>
inline constexpr bool in_recipe = false;
template <class Policy, class Recipe>
  requires(!std::is_void_v<axis_of_t<Policy>>)
inline constexpr bool in_recipe<Policy, Recipe> =
    is_chosen<Policy, typename policy_in<axis_of_t<Policy>, Recipe>::type>;

/// False for a policy whose count or choice is not in its type, and must be given as a value.
template <class Policy>
inline constexpr bool has_default = std::is_default_constructible_v<Policy>;
template <>
inline constexpr bool has_default<Accumulate<Dynamic>> = false;
template <>
inline constexpr bool has_default<Accumulate<Fit<>>> = false;
template <>
inline constexpr bool has_default<Checkpoint<Every<Dynamic>>> = false;
template <>
inline constexpr bool has_default<Checkpoint<Only<>>> = false;
template <>
inline constexpr bool has_default<Freeze<>> = false;

template <class... Given>
class Values : public AnyValues {
 public:
  explicit Values(Given... given) : given_(std::move(given)...) {}

  /// Returns the value given for a policy, or its default. It is called once for each policy.
  template <class Policy>
  Policy take() {
    if constexpr ((std::is_same_v<Policy, Given> || ...))
      return std::move(std::get<Policy>(given_));
    else return Policy{};
  }

 private:
  std::tuple<Given...> given_;
};

template <class Policy, class... Given>
inline constexpr std::size_t times = (std::size_t{std::is_same_v<Policy, Given>} + ... + 0);

/// Says why this value cannot be given to this recipe.
template <class Recipe, class Value, class... Given>
consteval auto given() {
  if constexpr (!in_recipe<Value, Recipe>) return refuse::is<refuse::ValueNotInRecipe<Value>>{};
  else if constexpr (times<Value, Given...> > 1) return refuse::is<refuse::ValueTwice<Value>>{};
  else return refuse::is<refuse::Nothing>{};
}

/// Refuses a policy that needs a value and was given none.
template <class Policy, class... Given>
struct valued {
  static constexpr bool has_value = has_default<Policy> || times<Policy, Given...> != 0;
  using type = std::conditional_t<has_value, refuse::Nothing, refuse::ValueMissing<Policy>>;
};
template <class... Policies, class... Given>
struct valued<Many<Policies...>, Given...>
    : refuse::first<typename valued<Policies, Given...>::type...> {};
template <class Recipe, class... Given>
struct all_valued;
template <class... Policies, class... Given>
struct all_valued<Composed<Policies...>, Given...> {
  template <class Policy>
  using of = typename valued<Policy, Given...>::type;
  using type = typename refuse::first<of<Policies>...>::type;
};

/// Says why these values cannot be given to this recipe; `refuse::Nothing` if they can.
template <class Recipe, class... Given>
using values_diagnosis_t =
    typename refuse::first<typename decltype(given<Recipe, Given, Given...>())::type...,
                           typename all_valued<Recipe, Given...>::type>::type;

}  // namespace ikebana::detail
