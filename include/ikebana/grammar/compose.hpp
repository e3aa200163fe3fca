#pragma once
// Sorts the policies of a recipe by axis and leaves out defaults, so that their order is immaterial
// and the name of a recipe's type is short.
#include <ikebana/grammar/axis_of.hpp>
#include <ikebana/grammar/wrapping_order.hpp>
#include <type_traits>

#include <ikebana/detail/macros_aside.inc>

#include <boost/hana/flatten.hpp>
#include <boost/hana/transform.hpp>

#include <ikebana/detail/macros_back.inc>

namespace ikebana {

/// The policies of an axis that takes many, in the order in which they were written.
template <class... Policies>
struct Many;
/// A recipe in wrapping order: one policy per axis, or `Many` of them. An axis that has its default
/// is left out, since the name is part of that of every function of a trainer.
template <class... Policies>
struct Composed;

namespace detail {

template <class Axis>
inline constexpr bool takes_many = requires { Axis::many; };

template <class Axis, class... Policies>
struct policy_on {  // if an axis takes many; if it was given too many, see refuse.hpp
  using type = Many<Policies...>;
};
template <class Axis, class Policy>
  requires(!takes_many<Axis> || std::is_same_v<Policy, Without<Axis>>)
struct policy_on<Axis, Policy> {
  using type = Policy;
};
template <class Axis>
  requires requires { typename Axis::default_policy; }
struct policy_on<Axis> {
  using type = typename Axis::default_policy;
};

template <class Axis>
struct is_on {
  template <class Policy>
  constexpr auto operator()(Policy) const {
    return hana::bool_c<std::is_same_v<axis_of_t<typename Policy::type>, Axis>>;
  }
};
template <class Axis>
struct policies_on {
  template <class... Policies>
  constexpr auto operator()(Policies...) const {
    return hana::type_c<typename policy_on<Axis, typename Policies::type...>::type>;
  }
};

/// Adds to an order a user's own axes that policies have and the order lacks.
template <class Order, class... Policies>
struct with_own_axes {
  using type = Order;
};
template <class... Axes, class Policy, class... Others>
struct with_own_axes<AxisList<Axes...>, Policy, Others...>
    : with_own_axes<AxisList<Axes...>, Others...> {};
template <class... Axes, class Policy, class... Others>
  requires(own_axis<axis_of_t<Policy>> && !(std::is_same_v<axis_of_t<Policy>, Axes> || ...))
struct with_own_axes<AxisList<Axes...>, Policy, Others...>
    : with_own_axes<AxisList<Axes..., axis_of_t<Policy>>, Others...> {};
/// One of the policies of an axis.
template <class Policy>
struct one_of {
  using type = Policy;
};
template <class Policy, class... Others>
struct one_of<Many<Policy, Others...>> {
  using type = Policy;
};
/// The axis of a policy, or of `Many` of them.
template <class Policy>
using axis_of_one = axis_of_t<typename one_of<Policy>::type>;

/// The axes of a recipe, in wrapping order: the library's, then a user's own, in the order in which
/// the recipe names them.
template <class... Policies>
using order_of = typename with_own_axes<WrappingOrder, typename one_of<Policies>::type...>::type;
template <class Recipe>
struct order_in;
template <class... Policies>
struct order_in<Composed<Policies...>> {
  using type = order_of<Policies...>;
};

/// The policy of an axis in a recipe that was composed: one of its own, or the default. An axis of
/// a user's own has no default: a recipe that names no policy on it is without the axis.
template <class Axis, class Recipe>
struct policy_in;
template <class Axis>
struct policy_in<Axis, Composed<>> : policy_on<Axis> {};
template <own_axis Axis>
struct policy_in<Axis, Composed<>> {
  using type = Many<>;
};
template <class Axis, class Policy, class... Others>
struct policy_in<Axis, Composed<Policy, Others...>> : policy_in<Axis, Composed<Others...>> {};
template <class Axis, class Policy, class... Others>
  requires std::is_same_v<axis_of_one<Policy>, Axis>
struct policy_in<Axis, Composed<Policy, Others...>> {
  using type = Policy;
};

/// Returns the policy of an axis as a tuple of one type, or as an empty tuple if it is the default.
template <class Axis, class... Policies>
constexpr auto written_on() {
  if constexpr ((std::is_same_v<axis_of_t<Policies>, Axis> || ...)) {
    constexpr auto all = hana::filter(hana::tuple_t<Policies...>, is_on<Axis>{});
    using Policy = typename decltype(hana::unpack(all, policies_on<Axis>{}))::type;
    using Default = typename policy_in<Axis, Composed<>>::type;
    if constexpr (std::is_same_v<Policy, Default>) return hana::tuple_t<>;
    else return hana::tuple_t<Policy>;
  } else {
    return hana::tuple_t<>;
  }
}
template <class... Policies>
constexpr auto compose() {
  return hana::flatten(hana::transform(hana_types(order_of<Policies...>()), [](auto axis) {
    return written_on<typename decltype(axis)::type, Policies...>();
  }));
}

template <class... Policies>
struct composed {
  static constexpr auto unpacked = hana::unpack(compose<Policies...>(), [](auto... policies) {
    return hana::type_c<Composed<typename decltype(policies)::type...>>;
  });
  using type = typename std::decay_t<decltype(unpacked)>::type;
};

}  // namespace detail

/// `Composed<...>` of policies in any order: two spellings of one recipe are one type.
template <class... Policies>
using compose_t = typename detail::composed<Policies...>::type;

}  // namespace ikebana
