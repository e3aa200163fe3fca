#pragma once
// The last stages of a recipe's judgement, which need the mechanisms' definitions.
#include <ikebana/detail/values.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

template <class Policy>
concept carried_out = requires { sizeof(Mechanism<Policy>); };
template <class Policy>
concept well_made = std::is_base_of_v<Hooks, Mechanism<Policy>> &&
                    std::is_constructible_v<Mechanism<Policy>, Policy> &&
                    requires(Mechanism<Policy> m) { { m.values } -> std::same_as<Policy&>; };
template <class M>
concept safe_after_prepare = requires(M m, const Masters masters, Gradients g, const Gradients c, Report r) {
  { m.update(masters, g) } noexcept;
  { m.after_update(masters, c) } noexcept;
  { m.end_step(c, r) } noexcept;
  { m.abort() } noexcept;
};

/// Stage 5: is every policy carried out, by a mechanism that keeps the step's promises?
template <class Policy>
consteval auto mechanism() {
  if constexpr (!carried_out<Policy>) return refuse::is<refuse::NoMechanism<Policy>>{};
  else if constexpr (!well_made<Policy>) return refuse::is<refuse::BadMechanism<Policy>>{};
  else if constexpr (!safe_after_prepare<Mechanism<Policy>>)
    return refuse::is<refuse::MayThrowInUpdate<Policy>>{};
  else return refuse::is<refuse::Nothing>{};
}

template <class Model, class... Policies>
consteval auto judge() {
  using Grammar = refuse::verdict_t<Model, Policies...>;
  if constexpr (!refuse::passed<Grammar>) return refuse::is<Grammar>{};
  else if constexpr (!is_model<Model>) return refuse::is<refuse::NotAModel<Model>>{};
  else return refuse::first<typename decltype(mechanism<Policies>())::type...>{};
}

/// A trainer derives from its verdict: a recipe that cannot be says why when it is instantiated.
template <class Model, class... Policies>
using judged_t = typename decltype(judge<Model, Policies...>())::type;

/// A recipe that was refused is replaced by none at all, so that nothing else is complained about.
template <class Verdict, class... Policies>
struct accepted {
  using type = compose_t<>;
};
template <class... Policies>
struct accepted<refuse::Nothing, Policies...> {
  using type = compose_t<Policies...>;
};

}  // namespace ikebana::detail
