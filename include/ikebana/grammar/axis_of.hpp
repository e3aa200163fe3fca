#pragma once
// Which question a type answers: that of a word, of a user's own policy, or of any callable.
#include <ikebana/grammar/vocabulary.hpp>

namespace ikebana {
namespace detail {

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
