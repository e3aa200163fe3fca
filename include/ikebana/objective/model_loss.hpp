#pragma once
#include <ikebana/objective/forward.hpp>

namespace ikebana {

/// No objective in the recipe: the model's own `loss(run, batch)`, and its `count(batch)` if it has
/// one. A `loss` that lives in a .cpp takes a `Runner`.
template <>
struct Without<axis::objective> {};

template <>
struct Mechanism<Without<axis::objective>> : Hooks {
  Without<axis::objective> values;
  explicit Mechanism(Without<axis::objective> v) : values(v) {}
  std::string describe() const { return "the model's own loss"; }

  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    if constexpr (requires { model->loss(run, batch); }) {
      return detail::as_loss(model->loss(run, batch));
    } else if constexpr (requires(Runner& runner) { model->loss(runner, batch); }) {
      Runner runner(run);
      return detail::as_loss(model->loss(runner, batch));
    } else {
      (void)sizeof(refuse::LossTakesOtherArguments<detail::impl_of_t<Model>, Batch>);
      return {};
    }
  }
  template <class Model, class Batch>
    requires requires(Model& model, const Batch& batch) { model->count(batch); }
  auto count(Model& model, const Batch& batch) {
    return model->count(batch);
  }
};

}  // namespace ikebana
