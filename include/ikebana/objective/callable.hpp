#pragma once
// Makes objectives of lambdas, functions and functors.
#include <ikebana/hooks.hpp>
#include <ikebana/objective/forward.hpp>
#include <ikebana/run/runner.hpp>

namespace ikebana {

namespace detail {

/// Converts from any argument. Overload resolution prefers a parameter that takes the argument as
/// it is.
struct ConvertedArgument {
  template <class T>
  ConvertedArgument(T&&);
};
/// Is worse than a callable for its arguments, and better than a const one for its object, so a
/// call of both is ambiguous.
struct RivalCall {
  void operator()(ConvertedArgument, ConvertedArgument, ConvertedArgument);
};
template <class F>
struct CallWithRival : F, RivalCall {
  using F::operator();
  using RivalCall::operator();
};
/// True only for a callable that takes these arguments. This check does not compile its body, which
/// a result of type `auto` would need: an error in the body would make the callable look like one
/// with other parameters. False for a callable that is not const, since nothing is known of it.
template <class F, class... Args>
inline constexpr bool surely_takes = false;
template <callable_class F, class... Args>
inline constexpr bool surely_takes<F, Args...> =
    !requires(CallWithRival<F>& both, Args... args) { both(args...); };

}  // namespace detail

/// Any callable (run, model, batch) -> Loss is an objective. If it has a member
/// `count(model, batch)` or `count(batch)`, the count is known before the first backward. A
/// callable that is not a template takes a `Runner&`.
template <class F>
  requires(std::is_same_v<axis_of_t<F>, axis::objective> &&
           (detail::callable_class<F> || std::is_pointer_v<F>))
struct Mechanism<F> : ObjectiveHooks {
  using carries_out = F;
  F values;
  explicit Mechanism(F f) : values(std::move(f)) {}

  template <class Run, class Model, class Batch>
  static consteval auto refusal() {
    constexpr bool takes_run = detail::surely_takes<F, Run&, Model&, const Batch&>;
    if constexpr (std::is_invocable_v<F&, Run&, Model&, const Batch&>)
      return detail::loss_refusal<std::invoke_result_t<F&, Run&, Model&, const Batch&>>();
    else if constexpr (takes_run) return refuse::is<refuse::Reported>{};
    else if constexpr (std::is_invocable_v<F&, Runner&, Model&, const Batch&>)
      return detail::loss_refusal<std::invoke_result_t<F&, Runner&, Model&, const Batch&>>();
    else return refuse::is<refuse::ObjectiveTakesOtherArguments<F, Batch>>{};
  }
  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    if constexpr (std::is_invocable_v<F&, Run&, Model&, const Batch&>) {
      return values(run, model, batch);
    } else {
      Runner runner(run);
      return values(runner, model, batch);
    }
  }
  template <class Model, class Batch>
    requires(detail::counts<F, Model&, const Batch&> || detail::counts<F, const Batch&>)
  auto count(Model& model, const Batch& batch) {
    if constexpr (detail::counts<F, Model&, const Batch&>) return values.count(model, batch);
    else return values.count(batch);
  }
  /// Returns true if the callable has a `count` that cannot be called.
  template <class Model, class Batch>
  static consteval auto count_refusal() {
    if constexpr (detail::counts<F, Model&, const Batch&> || detail::counts<F, const Batch&>)
      return refuse::is<refuse::Nothing>{};
    else return detail::other_count_refusal<F, Batch>();
  }
};

}  // namespace ikebana
