#pragma once
// Checks a whole recipe: its policies, the model, and last the mechanisms, which need definitions.
#include <ikebana/checks/policies.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// The first type of a model's `units` that is not a module; `units` itself if it is not a list.
template <class List>
struct not_a_unit {
  using type = List;
};
template <>
struct not_a_unit<void> {
  using type = void;
};
template <>
struct not_a_unit<Children> {
  using type = void;
};
template <>
struct not_a_unit<Units<>> {
  using type = void;
};
template <class Module, class... Others>
struct not_a_unit<Units<Module, Others...>>
    : std::conditional_t<refuse::module_type<Module>, not_a_unit<Units<Others...>>,
                         std::type_identity<Module>> {};

template <class Policy>
concept well_made =
    std::is_base_of_v<Hooks, Mechanism<Policy>> &&
    std::is_constructible_v<Mechanism<Policy>, Policy> && requires(Mechanism<Policy> m) {
      { m.values } -> std::same_as<Policy&>;
    };
template <class M>
concept hooks_fit =
    requires(M m, const M& same, const Unit& unit, const UnitTable& table, Tensors t,
             const at::Tensor& loss, const Masters& masters, StepGradients& gradients,
             const StepGradients& done, Report& report, const Epoch& epoch, Archive& archive) {
      m.freeze(table), m.end_epoch(epoch);
      m.attach(c10::Device(c10::kCPU), table), m.begin(masters);
      m.set_requires_gradient_sync(true), m.scale(loss), m.unscale(gradients);
      m.to_masters(unit, t), m.gather(unit, t), m.reduce(unit, t);
      m.before_unit_backward(unit), m.after_unit_backward(unit);
      same.base_lr(), same.rate(0.0, std::int64_t{0}), same.describe();
      m.update(masters, gradients), m.after_update(masters, done), m.end_step(done, report);
      m.abort(), m.state(archive, masters);
    };
template <class M>
concept safe_after_prepare = requires(M m, const Masters& masters, StepGradients& gradients,
                                      const StepGradients& done, Report& report) {
  { m.update(masters, gradients) } noexcept;
  { m.after_update(masters, done) } noexcept;
  { m.end_step(done, report) } noexcept;
  { m.abort() } noexcept;
};

/// Stage 5: does every policy have a mechanism that fits the hooks and may not throw late?
template <class Policy>
consteval auto mechanism() {
  using M = Mechanism<Policy>;
  if constexpr (!refuse::complete<M>) return refuse::is<refuse::NoMechanism<Policy>>{};
  else if constexpr (!well_made<Policy>) return refuse::is<refuse::BadMechanism<Policy>>{};
  else if constexpr (!hooks_fit<M>) return refuse::is<refuse::HookTakesOtherArguments<Policy>>{};
  else if constexpr (!safe_after_prepare<M>) return refuse::is<refuse::MayThrowInUpdate<Policy>>{};
  else return refuse::is<refuse::Nothing>{};
}

template <class Model, class... Policies>
consteval auto check_recipe() {
  using Refusal = refuse::policies_diagnosis_t<Model, Policies...>;
  if constexpr (!refuse::passed<Refusal>) return refuse::is<Refusal>{};
  else if constexpr (!refuse::module_type<Model>) return refuse::is<refuse::NotAModel<Model>>{};
  else {
    using NotAUnit = typename not_a_unit<units_of_t<Model>>::type;
    using Fit = refuse::model_diagnosis_t<Model, Policies...>;
    if constexpr (!std::is_void_v<NotAUnit>) return refuse::is<refuse::BadUnits<Model, NotAUnit>>{};
    else if constexpr (!refuse::passed<Fit>) return refuse::is<Fit>{};
    else return refuse::first<typename decltype(mechanism<Policies>())::type...>{};
  }
}

/// Why this recipe is refused, as a type whose instantiation is the error; `refuse::Nothing` if it
/// is not.
template <class Model, class... Policies>
using recipe_diagnosis_t = typename decltype(check_recipe<Model, Policies...>())::type;

}  // namespace ikebana::detail
