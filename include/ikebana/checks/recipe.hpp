#pragma once
// Checks a whole recipe: its policies, the model, and last the mechanisms, which need definitions.
#include <ikebana/checks/hooks.hpp>
#include <ikebana/checks/policies.hpp>
#include <ikebana/checks/schedules.hpp>
#include <ikebana/checks/unknown_choices.hpp>

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
    std::derived_from<Mechanism<Policy>, HooksOf<axis_of_t<Policy>>> &&
    std::is_constructible_v<Mechanism<Policy>, Policy> && requires {  // it has a copy of its own,
                                                                      // not a reference
      { &Mechanism<Policy>::values } -> std::convertible_to<Policy Mechanism<Policy>::*>;
    };
template <class M>
concept safe_after_update =
    requires(M m, const Masters& masters, const StepGradients& done, Report& report) {
      { m.after_update(masters, done) } noexcept;
      { m.end_step(done, report) } noexcept;
      { m.abort() } noexcept;
    } && (!std::derived_from<M, AverageHooks> || requires(M m) {
      { m.restart() } noexcept;
    });

/// Mechanisms of this library declare it, with the policy whose values they hold. One that derives
/// from the mechanism of another policy, and has `values` of its own, has inherited it.
template <class M>
struct carried_out {
  using type = void;
};
template <class M>
  requires requires { typename M::carries_out; }
struct carried_out<M> {
  using type = typename M::carries_out;
};

/// Checks that the mechanism is the policy's own, and that its hooks can be called.
template <class Policy>
consteval auto check_hooks() {
  using M = Mechanism<Policy>;
  using Of = typename carried_out<M>::type;
  if constexpr (!std::is_void_v<Of> && !std::is_same_v<Of, Policy>)
    return refuse::is<refuse::TwoCopiesOfValues<Policy, Of>>{};
  else if constexpr (std::is_void_v<Of> && declared<Policy> && !own_policy<Policy>)
    return refuse::is<refuse::ReplacedMechanism<Policy>>{};
  else if constexpr (!refuse::passed<first_unfit_t<Policy>>)
    return refuse::is<first_unfit_t<Policy>>{};
  else if constexpr (!safe_after_update<M>)
    return refuse::is<refuse::MayThrowAfterUpdate<Policy>>{};
  else if constexpr (!refuse::passed<first_undeclared_t<Policy>>)
    return refuse::is<first_undeclared_t<Policy>>{};
  else if constexpr (own_policy<Policy>) return refuse::is<first_never_asked_t<Policy>>{};
  else return refuse::is<refuse::Nothing>{};
}

template <class Policy>
consteval auto mechanism();
template <class... Schedules>
consteval auto mechanisms_within(refuse::ScheduleList<Schedules...>) {
  return refuse::first<typename decltype(mechanism<Schedules>())::type...>{};
}

/// Stage 5: checks that every policy, and each schedule within it, has a mechanism that fits the
/// hooks and may not throw late.
template <class Policy>
consteval auto mechanism() {
  using M = Mechanism<Policy>;
  using Within =
      typename decltype(mechanisms_within(typename refuse::schedules_in<Policy>::type()))::type;
  constexpr bool on_ranks =
      refuse::listed<Policy> && std::is_same_v<axis_of_t<Policy>, axis::shard>;
  if constexpr (!refuse::passed<Within>) return refuse::is<Within>{};
  else if constexpr (!refuse::complete<M> && on_ranks)
    return refuse::is<refuse::NotIncluded<Policy>>{};
  else if constexpr (!refuse::complete<M> && refuse::listed<Policy> &&
                     std::is_same_v<axis_of_t<Policy>, axis::capture>)
    return refuse::is<refuse::CaptureNotIncluded<Policy>>{};
  else if constexpr (!refuse::complete<M> && std::is_same_v<Policy, Observe<Profile>>)
    return refuse::is<refuse::ProfileNotIncluded<Policy>>{};
  else if constexpr (!refuse::complete<M> && refuse::listed<Policy> &&
                     std::is_same_v<axis_of_t<Policy>, axis::observe>)
    return refuse::is<refuse::ObserveNotIncluded<Policy>>{};
  else if constexpr (!refuse::complete<M>) return refuse::is<refuse::NoMechanism<Policy>>{};
  else if constexpr (!well_made<Policy>)
    return refuse::is<refuse::BadMechanism<Policy, HooksOf<axis_of_t<Policy>>>>{};
  else return check_hooks<Policy>();
}

/// True for a mechanism that declares that all it does in forward and backward is done by
/// operators.
template <class M>
inline constexpr bool is_replayed = false;
template <class M>
  requires requires { M::is_replayed; }
inline constexpr bool is_replayed<M> = M::is_replayed;
/// True if all that a recipe lacks is the header of Capture.
template <class Refusal>
inline constexpr bool lacks_capture = false;
template <class Policy>
inline constexpr bool lacks_capture<refuse::CaptureNotIncluded<Policy>> = true;
/// True for a policy of a user's own with hooks that a replay would leave out: of a whole step, or
/// of each unit, which is inside of most hooks.
template <class Captured, class Policy>
consteval bool has_hooks_in_replay() {
  using M = Mechanism<Policy>;
  using Axis = axis_of_t<Policy>;
  if constexpr (!own_policy<Policy> || is_replayed<M>) return false;
  else if constexpr (std::is_same_v<Captured, Capture<EachUnit>>)
    return has_hook<hook::around_unit, M> &&
           (std::is_same_v<Axis, axis::checkpoint> || std::is_same_v<Axis, axis::precision>);
  else
    return has_hook<hook::around_unit, M> || has_hook<hook::before_unit_backward, M> ||
           has_hook<hook::after_unit_backward, M> || has_hook<hook::gather, M> ||
           has_hook<hook::around_forward, M>;
}
/// The refusal of a policy that works within what is replayed.
template <class Captured, class Policy>
using refusal_in_replay = std::conditional_t<
    std::is_same_v<Policy, Observe<Profile>>, refuse::ProfileOfReplay<Captured, Policy>,
    std::conditional_t<has_hooks_in_replay<Captured, Policy>(),
                       refuse::OwnHooksInReplay<Captured, Policy>, refuse::Nothing>>;
/// Stage 6: checks that what `Capture<...>` replays has no hooks of a user's own, and is not
/// profiled.
template <class Policy, class... Policies>
consteval auto replayed() {
  if constexpr (!std::is_same_v<axis_of_t<Policy>, axis::capture> || own_policy<Policy> ||
                std::is_same_v<Policy, Capture<Off>>)
    return refuse::is<refuse::Nothing>{};
  else return refuse::first<refusal_in_replay<Policy, Policies>...>{};
}

template <class Model, class... Policies>
consteval auto check_recipe() {
  using Refusal = refuse::policies_diagnosis_t<Model, Policies...>;
  if constexpr (refuse::scripted<Model>) return refuse::is<refuse::ScriptedModel<Model>>{};
  else if constexpr (!refuse::passed<Refusal>) return refuse::is<Refusal>{};
  else if constexpr (!refuse::module_type<Model>) return refuse::is<refuse::NotAModel<Model>>{};
  else {
    using NotAUnit = typename not_a_unit<units_of_t<Model>>::type;
    using Fit = refuse::model_diagnosis_t<Model, Policies...>;
    if constexpr (!std::is_void_v<NotAUnit>) return refuse::is<refuse::BadUnits<Model, NotAUnit>>{};
    else if constexpr (!refuse::passed<Fit>) return refuse::is<Fit>{};
    else {
      using Unfit = typename refuse::first<typename decltype(mechanism<Policies>())::type...>::type;
      if constexpr (!refuse::passed<Unfit> && !lacks_capture<Unfit>) return refuse::is<Unfit>{};
      else
        return refuse::first<typename decltype(replayed<Policies, Policies...>())::type...,
                             Unfit>{};
    }
  }
}

/// Says why this recipe is refused, as a type whose instantiation is the error; `refuse::Nothing`
/// if it is not.
template <class Model, class... Policies>
using recipe_diagnosis_t = typename decltype(check_recipe<Model, Policies...>())::type;

}  // namespace ikebana::detail
