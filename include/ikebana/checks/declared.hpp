#pragma once
// Hooks that a mechanism has and does not declare, so that no step would call them.
#include <concepts>
#include <ikebana/checks/never_asked.hpp>

namespace ikebana {

/// The names of what a mechanism declares, for the texts of refusals.
namespace hook {
struct moves_parameters;
struct gathers_ahead;
struct listens_to_backward;
}  // namespace hook

namespace detail {

/// True where `&M::name` is the default of `Base`. Of a hook that is a template, it is not.
#define IKEBANA_IS_DEFAULT(name, Base)       \
  template <class M>                         \
  inline constexpr bool has_default_##name = \
      requires { requires std::is_same_v<decltype(&M::name), decltype(&Base::name)>; }
IKEBANA_IS_DEFAULT(gather, GatherHooks);
IKEBANA_IS_DEFAULT(begin_gather, GatherHooks);
IKEBANA_IS_DEFAULT(before_unit_backward, UnitBackwardHooks);
IKEBANA_IS_DEFAULT(after_unit_backward, UnitBackwardHooks);
#undef IKEBANA_IS_DEFAULT

template <class T>
inline constexpr bool is_undeclared = std::is_same_v<std::remove_cv_t<T>, Undeclared>;

/// True where a mechanism has the hook and says nothing of it, not even that it is not to be
/// called.
template <class M>
inline constexpr bool forgets_to_gather = false;
template <std::derived_from<GatherHooks> M>
inline constexpr bool forgets_to_gather<M> =
    !has_default_gather<M> && is_undeclared<decltype(M::moves_parameters)>;
template <class M>
inline constexpr bool forgets_to_begin = false;
template <std::derived_from<GatherHooks> M>
inline constexpr bool forgets_to_begin<M> =
    !has_default_begin_gather<M> && is_undeclared<decltype(M::gathers_ahead)>;
template <class M>
inline constexpr bool forgets_to_listen = false;
template <std::derived_from<UnitBackwardHooks> M>
inline constexpr bool forgets_to_listen<M> =
    !(has_default_before_unit_backward<M> && has_default_after_unit_backward<M>) &&  //
    is_undeclared<decltype(M::listens_to_backward)>;

template <class Policy>
consteval auto undeclared_hook() {
  using M = Mechanism<Policy>;
  if constexpr (forgets_to_gather<M>)
    return refuse::is<refuse::UndeclaredHook<Policy, hook::gather, hook::moves_parameters>>{};
  else if constexpr (forgets_to_begin<M>)
    return refuse::is<refuse::UndeclaredHook<Policy, hook::begin_gather, hook::gathers_ahead>>{};
  else if constexpr (!forgets_to_listen<M>) return refuse::is<refuse::Nothing>{};
  else if constexpr (!has_default_before_unit_backward<M>)
    return refuse::is<
        refuse::UndeclaredHook<Policy, hook::before_unit_backward, hook::listens_to_backward>>{};
  else
    return refuse::is<
        refuse::UndeclaredHook<Policy, hook::after_unit_backward, hook::listens_to_backward>>{};
}
/// The first hook that the policy's mechanism has and does not declare, as a refusal.
template <class Policy>
using first_undeclared_t = typename decltype(undeclared_hook<Policy>())::type;

}  // namespace detail
}  // namespace ikebana
