#pragma once
// Finds the axis of a type: of a policy declared here, of a user's own policy, or of a callable.
#include <ikebana/grammar/vocabulary.hpp>

namespace ikebana {
namespace detail {

// A class has a call operator, of any signature, if its name is ambiguous in CallProbe.
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

/// The axis that a policy sets: declared in vocabulary.hpp, or the `using axis = ...` of a user's
/// own policy; any callable is an objective. `type` is `void` if the type is not a policy.
template <class Policy>
struct axis_of : detail::declared_axis<Policy> {};
/// The axis of a user's own policy.
template <class Policy>
  requires requires { typename Policy::axis; }
struct axis_of<Policy> {
  using type = typename Policy::axis;  ///< what it declares
};
/// The axis of a callable class.
template <class F>
  requires(!detail::declared<F> && !requires { typename F::axis; } && detail::callable_class<F>)
struct axis_of<F> {
  using type = axis::objective;  ///< what is minimised
};
/// The axis of a function.
template <class Result, class... Args>
struct axis_of<Result (*)(Args...)> {
  using type = axis::objective;  ///< what is minimised
};
/// The axis itself, or void.
template <class Policy>
using axis_of_t = typename axis_of<Policy>::type;

/// True for a policy that a user has defined: it names its axis.
template <class Policy>
concept own_policy = requires { typename Policy::axis; };

/// True for a policy that works unit by unit and has no effect on a model that declares no units;
/// the policy states it by `static constexpr bool needs_units = true`.
template <class Policy>
inline constexpr bool needs_units = false;
template <class Policy>
  requires requires { Policy::needs_units; }
inline constexpr bool needs_units<Policy> = Policy::needs_units;

}  // namespace ikebana
