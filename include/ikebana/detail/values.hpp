#pragma once
// The values given to a trainer's constructor, by type.
#include <ikebana/grammar/verdict.hpp>
#include <tuple>

namespace ikebana::detail {

template <class Policy, class Recipe>
inline constexpr bool in_recipe = false;
template <class Policy, class... Policies>
inline constexpr bool in_recipe<Policy, Composed<Policies...>> =
    (in_recipe<Policy, Policies> || ...) || (std::is_same_v<Policy, Policies> || ...);
template <class Policy, class... Policies>
inline constexpr bool in_recipe<Policy, Many<Policies...>> = (std::is_same_v<Policy, Policies> || ...);

/// A count that is not in the type has to come as a value.
template <class Policy>
inline constexpr bool has_default = std::is_default_constructible_v<Policy>;
template <>
inline constexpr bool has_default<Accumulate<Dynamic>> = false;

template <class... Given>
class Values {
 public:
  explicit Values(Given... given) : given_(std::move(given)...) {}

  /// The value given for a policy, or its default.
  template <class Policy>
  Policy take() {
    if constexpr ((std::is_same_v<Policy, Given> || ...)) return std::get<Policy>(given_);
    else return Policy{};
  }

 private:
  std::tuple<Given...> given_;
};

template <class Value, class... Others>
inline constexpr bool twice = (int(std::is_same_v<Value, Others>) + ... + 0) > 1;

template <class Policy>
inline constexpr bool any_default = has_default<Policy>;
template <class... Policies>
inline constexpr bool any_default<Many<Policies...>> = true;

template <class Policy, class... Given>
inline constexpr bool has_value = any_default<Policy> || (std::is_same_v<Policy, Given> || ...);
template <class Policy, bool Has>
using missing_t = std::conditional_t<Has, refuse::Nothing, refuse::ValueMissing<Policy>>;
template <class Given, class... Policies>
struct missing_among;
template <class... Given, class... Policies>
struct missing_among<std::tuple<Given...>, Policies...>
    : refuse::first<missing_t<Policies, has_value<Policies, Given...>>...> {};
template <class Recipe, class... Given>
struct missing_value;
template <class... Policies, class... Given>
struct missing_value<Composed<Policies...>, Given...>
    : missing_among<std::tuple<Given...>, Policies...> {};

/// Why these values cannot be given to this recipe; `refuse::Nothing` if they can.
template <class Recipe, class... Given>
using values_verdict_t = typename refuse::first<
    std::conditional_t<in_recipe<Given, Recipe>, refuse::Nothing, refuse::ValueNotInRecipe<Given>>...,
    std::conditional_t<twice<Given, Given...>, refuse::ValueTwice<Given>, refuse::Nothing>...,
    typename missing_value<Recipe, Given...>::type>::type;

}  // namespace ikebana::detail
