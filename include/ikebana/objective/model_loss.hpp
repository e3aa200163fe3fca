#pragma once
// Defines the default objective: the model's own `loss`.
#include <ikebana/objective/forward.hpp>

namespace ikebana {

/// Without an objective in the recipe, the model's `loss(run, batch)` is minimised; its
/// `count(batch)` is used if it has one. A `loss` that is not a template, e.g. in a .cpp file,
/// takes a `Runner&`.
template <>
struct Without<axis::objective> {};

template <>
struct Mechanism<Without<axis::objective>> : ObjectiveHooks {
  using carries_out = Without<axis::objective>;
  Without<axis::objective> values;
  explicit Mechanism(Without<axis::objective> v) : values(v) {}
  std::string describe() const { return "the model's own loss"; }

  template <class Run, class Model, class Batch>
  static consteval auto refusal() {
    constexpr bool takes_run = requires(Run& run, Model& m, const Batch& b) { m->loss(run, b); };
    constexpr bool takes_runner =
        requires(Runner& run, Model& m, const Batch& b) { m->loss(run, b); };
    if constexpr (takes_run || takes_runner) {
      using AnyRun = std::conditional_t<takes_run, Run, Runner>;
      return detail::loss_refusal<decltype(std::declval<Model&>()->loss(
          std::declval<AnyRun&>(), std::declval<const Batch&>()))>();
    } else {
      return refuse::is<refuse::LossTakesOtherArguments<detail::impl_of_t<Model>, Batch>>{};
    }
  }
  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    if constexpr (requires { model->loss(run, batch); }) {
      return model->loss(run, batch);
    } else {
      Runner runner(run);
      return model->loss(runner, batch);
    }
  }
  template <class Model, class Batch>
    requires requires(Model& model, const Batch& batch) { model->count(batch); }
  auto count(Model& model, const Batch& batch) {
    return model->count(batch);
  }
  /// Returns true if the model has a `count` that cannot be called.
  template <class Model, class Batch>
  static consteval auto count_refusal() {
    if constexpr (requires(Model& model, const Batch& batch) { model->count(batch); })
      return refuse::is<refuse::Nothing>{};
    else return detail::other_count_refusal<detail::impl_of_t<Model>, Batch>();
  }
};

}  // namespace ikebana
