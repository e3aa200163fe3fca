#pragma once
#include <ikebana/objective/forward.hpp>

namespace ikebana {

/// Any callable (run, model, batch) -> Loss is an objective: a lambda, a function, a functor. Its
/// member `count(model, batch)`, if it has one, tells the count before the first backward.
template <class F>
  requires(std::is_same_v<axis_of_t<F>, axis::objective> &&
           (detail::callable_class<F> || std::is_pointer_v<F>))
struct Mechanism<F> : Hooks {
  F values;
  explicit Mechanism(F f) : values(std::move(f)) {}

  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    if constexpr (std::is_invocable_v<F&, Run&, Model&, const Batch&>) {
      return detail::as_loss(values(run, model, batch));
    } else {
      (void)sizeof(refuse::ObjectiveTakesOtherArguments<F, Batch>);
      return {};
    }
  }
  template <class Model, class Batch>
    requires requires(F& f, Model& model, const Batch& batch) { f.count(model, batch); }
  auto count(Model& model, const Batch& batch) {
    return values.count(model, batch);
  }
};

}  // namespace ikebana
