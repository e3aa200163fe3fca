#pragma once
// Defines `run(unit, args...)`, by which a model's loss computes one unit, so that every policy
// applies to it.
#include <ikebana/grammar/refuse_run.hpp>
#include <ikebana/run/unit_call.hpp>

namespace ikebana {

namespace detail {

/// Returns the refusal of a loss function's result type, or `refuse::Nothing` for a Loss.
template <class Result>
consteval auto loss_refusal() {
  if constexpr (std::is_convertible_v<Result, Loss>) return refuse::is<refuse::Nothing>{};
  else return refuse::is<refuse::NotALoss<std::remove_cvref_t<Result>>>{};
}

}  // namespace detail

/// Given to a model's `loss` and to objectives. `run(unit, args...)` computes
/// `unit->forward(args...)` inside every mechanism that works unit by unit; `run(model, args...)`
/// does so with each unit that the model declares. Arguments and results may be any values; the
/// tensors in them are seen. A run is a small value: copy it freely, while the trainer exists.
template <class Core>
class Run {
 public:
  /// True if the recipe has a policy that works unit by unit.
  static constexpr bool per_unit = Core::per_unit;

  /// The trainer makes it for each step and each evaluation.
  Run(Core& core, bool is_evaluating) : evaluating(is_evaluating), core_(&core) {}

  /// Returns `forward(args...)` of the unit. The compiler refuses a module that is no unit of the
  /// model, and a value that is no module.
  template <class Holder, class... Args>
  auto operator()(Holder&& holder, Args&&... args) {
    using Module = std::remove_cvref_t<Holder>;
    using Model = typename Core::Model;
    constexpr bool is_model = std::is_same_v<detail::impl_of_t<Module>, detail::impl_of_t<Model>>;
    if constexpr (!detail::runnable<Module, Model> && !refuse::module_type<Module>) {
      (void)sizeof(refuse::RunTakesAModule<Module>);
      return at::Tensor();
    } else if constexpr (!detail::runnable<Module, Model>) {
      (void)sizeof(refuse::UndeclaredUnit<detail::impl_of_t<Module>, detail::impl_of_t<Model>>);
      return detail::call_forward(holder, *this, std::forward<Args>(args)...);
    } else if constexpr (is_model && detail::has_inner_units<Model> &&
                         detail::passes_run_on<Run, Module, Args...>) {
      return detail::run_units(*this, holder, std::forward<Args>(args)...);
    } else {
      using Forward = detail::ModuleForward<std::remove_reference_t<Holder>>;
      return core_->run_unit(detail::module_address(holder), Forward{&holder, evaluating},
                             std::forward<Args>(args)...);
    }
  }

  /// Refused: a run is no model.
  template <class Model = typename Core::Model>
  auto operator->() const -> detail::impl_of_t<Model>* {
    return (void)sizeof(refuse::RunIsNoModel<detail::impl_of_t<Model>>), nullptr;
  }

  /// True in `Trainer::evaluate`.
  bool evaluating;

 private:
  friend class Runner;
  Core* core_;
};

}  // namespace ikebana
