#pragma once
// Checks that the hooks of a mechanism are called as they are meant: they can be called as the
// hooks that they hide, a step calls them on their axis, they have no former name, and what must be
// declared is.
#include <concepts>
#include <ikebana/core/off.hpp>
#include <ikebana/grammar/diagnosis.hpp>
#include <ikebana/grammar/refuse_use.hpp>
#include <ikebana/grammar/wrapping_order.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/table.hpp>

namespace ikebana {

/// The names of hooks and of the other members that a mechanism declares, for the texts of
/// refusals.
namespace hook {
#define IKEBANA_DECLARE_HOOK(name, ...) struct name;
IKEBANA_EACH_HOOK(IKEBANA_DECLARE_HOOK)
IKEBANA_EACH_RENAMED_HOOK(IKEBANA_DECLARE_HOOK)
#undef IKEBANA_DECLARE_HOOK
struct moves_parameters;
struct gathers_ahead;
struct listens_to_backward;
struct keeps_gathered;
struct keeps_working;  // which is keeps_gathered now
}  // namespace hook

namespace detail {

// The table of hooks names these bases.

/// Either of two axes' bases.
template <class... Bases>
struct Either {};
using PrecisionOrOffload = Either<PrecisionHooks, OffloadHooks>;
using PrecisionOrClip = Either<PrecisionHooks, ClipHooks>;
using DeviceOrLayout = Either<DeviceHooks, LayoutHooks>;
/// True if a mechanism `M` has the hooks of `Base`.
template <class M, class Base>
inline constexpr bool has_base = std::derived_from<M, Base>;
template <class M, class... Bases>
inline constexpr bool has_base<M, Either<Bases...>> = (std::derived_from<M, Bases> || ...);

// Does a mechanism have a hook?

// A mechanism has a hook, of any parameters, if its name is ambiguous in HookProbe.
struct HookNames {
#define IKEBANA_NAME_HOOK(name, ...) void name();
  IKEBANA_EACH_HOOK(IKEBANA_NAME_HOOK)
  IKEBANA_EACH_RENAMED_HOOK(IKEBANA_NAME_HOOK)
#undef IKEBANA_NAME_HOOK
};
template <class M>
struct HookProbe : M, HookNames {};
template <class M>
  requires std::is_final_v<M>
struct HookProbe<M> : HookNames {};

/// True if `M` has a member function of that name, its own or an inherited one. In a final class,
/// templates and overloaded functions are not found.
template <class Hook, class M>
inline constexpr bool has_hook = false;
#define IKEBANA_HAS_HOOK(name, ...)                                                             \
  template <class M>                                                                            \
  inline constexpr bool has_hook<hook::name, M> =                                               \
      (!requires { &HookProbe<M>::name; } || (std::is_final_v<M> && requires { &M::name; })) && \
      !requires { requires std::is_member_object_pointer_v<decltype(&M::name)>; };
IKEBANA_EACH_HOOK(IKEBANA_HAS_HOOK)
IKEBANA_EACH_RENAMED_HOOK(IKEBANA_HAS_HOOK)
#undef IKEBANA_HAS_HOOK

// The code below checks whether a hook can be called.

struct AnyRate {
  double operator()(double lr) const { return lr; }
  double momentum(double base) const { return base; }
  std::int64_t step() const { return 0; }
};
using AnyRanks = OneRank;

Ranks some_ranks(OneRank);
Ranks some_ranks(Ranks);

/// The arguments of hooks, by the names of the table.
struct HookArguments {
  c10::Device device;
  const UnitTable& table;
  const Unit& unit;
  const Masters& masters;
  StepGradients& gradients;
  const StepGradients& done;
  Report& report;
  const Epoch& epoch;
  Archive& archive;
  const AnyRate& rate;
  AnyRanks& ranks;
  DeferredCheck& deferred;
  const LossValue& loss;
  const at::Tensor& tensor;
  Tensors (*tensors)();
};
template <class Result, class Needed>
concept gives = std::is_void_v<Needed> || std::convertible_to<Result, Needed>;

/// True if the hook of that name can be called as the one of its base, of a mechanism `M` that has
/// that base.
template <class Hook, class M>
inline constexpr bool hook_fits = true;
#define IKEBANA_CAN_CALL(Result, call)                \
  requires(M m, const M& same, HookArguments given) { \
    {                                                 \
      call                                            \
    } -> gives<Result>;                               \
  }
#define IKEBANA_HOOK_FITS_policy(name, Base, Result, call) \
  template <class M>                                       \
  inline constexpr bool hook_fits<hook::name, M> =         \
      !has_base<M, Base> || IKEBANA_CAN_CALL(Result, call);
#define IKEBANA_HOOK_FITS_engine IKEBANA_HOOK_FITS_policy
#define IKEBANA_HOOK_FITS_optional(name, Base, Result, call) \
  template <class M>                                         \
  inline constexpr bool hook_fits<hook::name, M> =           \
      !has_base<M, Base> || !has_hook<hook::name, M> || IKEBANA_CAN_CALL(Result, call);
#define IKEBANA_HOOK_FITS(name, tier, ...) IKEBANA_HOOK_FITS_##tier(name, __VA_ARGS__)
IKEBANA_EACH_HOOK(IKEBANA_HOOK_FITS)
#undef IKEBANA_HOOK_FITS
#undef IKEBANA_HOOK_FITS_optional
#undef IKEBANA_HOOK_FITS_engine
#undef IKEBANA_HOOK_FITS_policy
#undef IKEBANA_CAN_CALL

/// True for a hook that is given a copy of what it is to change. A template counts by its instance
/// for what a step gives to it.
template <class Hook>
inline constexpr bool takes_copy = false;
template <class... Args>
inline constexpr bool any_copied =
    ((std::same_as<Args, StepGradients> || std::same_as<Args, Report> ||
      std::same_as<Args, Archive> || std::same_as<Args, DeferredCheck>) ||
     ...);
template <class R, class M, class... Args>
inline constexpr bool takes_copy<R (M::*)(Args...)> = any_copied<Args...>;
template <class R, class M, class... Args>
inline constexpr bool takes_copy<R (M::*)(Args...) const> = any_copied<Args...>;
template <class R, class M, class... Args>
inline constexpr bool takes_copy<R (M::*)(Args...) noexcept> = any_copied<Args...>;
template <class R, class M, class... Args>
inline constexpr bool takes_copy<R (M::*)(Args...) const noexcept> = any_copied<Args...>;

/// True for a `rate` or `momentum` that would be given the number of the step as its base, or a
/// rounded base.
template <class Hook>
inline constexpr bool takes_other_numbers = false;
template <class R, class M, class Base, class Step>
inline constexpr bool takes_other_numbers<R (M::*)(Base, Step) const> =
    std::integral<std::remove_cvref_t<Base>> || std::floating_point<std::remove_cvref_t<Step>>;
template <class R, class M, class Base, class Step>
inline constexpr bool takes_other_numbers<R (M::*)(Base, Step) const noexcept> =
    takes_other_numbers<R (M::*)(Base, Step) const>;

/// True if a hook of that name would change only a copy of what it is given, or takes its numbers
/// in another order. The hooks below change what they are given. They are listed with the argument
/// of their template.
template <class Hook, class M>
inline constexpr bool changes_copy = false;
#define IKEBANA_CHANGES_COPY(name, Argument)                     \
  template <class M>                                             \
  inline constexpr bool changes_copy<hook::name, M> = requires { \
    requires takes_copy<decltype(&M::name)>;                     \
  } || requires { requires takes_copy<decltype(&M::template name<Argument>)>; }
IKEBANA_CHANGES_COPY(prepare, AnyRate);
IKEBANA_CHANGES_COPY(end_step, Report);
IKEBANA_CHANGES_COPY(state, Archive);
IKEBANA_CHANGES_COPY(unscale, StepGradients);
IKEBANA_CHANGES_COPY(update, StepGradients);
IKEBANA_CHANGES_COPY(close_step, AnyRanks);
IKEBANA_CHANGES_COPY(clip, AnyRanks);
IKEBANA_CHANGES_COPY(accept, AnyRanks);
#undef IKEBANA_CHANGES_COPY
template <class M>
inline constexpr bool changes_copy<hook::rate, M> =
    requires { requires takes_other_numbers<decltype(&M::rate)>; };
template <class M>
inline constexpr bool changes_copy<hook::momentum, M> =
    requires { requires takes_other_numbers<decltype(&M::momentum)>; };

template <class Policy, class Hook>
struct unfit : refuse::is<refuse::Nothing> {};
template <class Policy, class Hook>
  requires(!hook_fits<Hook, Mechanism<Policy>> || changes_copy<Hook, Mechanism<Policy>>)
struct unfit<Policy, Hook> : refuse::is<refuse::HookTakesOtherArguments<Policy, Hook>> {};
#define IKEBANA_CHECK_HOOK(name, ...) typename unfit<Policy, hook::name>::type,
/// The first hook of the policy's mechanism that no step could call as it is meant, as a refusal.
template <class Policy>
using first_unfit_t =
    typename refuse::first<IKEBANA_EACH_HOOK(IKEBANA_CHECK_HOOK) refuse::Nothing>::type;
#undef IKEBANA_CHECK_HOOK

// Is the axis of the mechanism asked the hook?

/// The base that has a hook.
template <class Hook>
struct hook_base;
#define IKEBANA_HOOK_BASE(name, tier, Base, ...) \
  template <>                                    \
  struct hook_base<hook::name> {                 \
    using type = Base;                           \
  };
IKEBANA_EACH_HOOK(IKEBANA_HOOK_BASE)
#undef IKEBANA_HOOK_BASE
/// True if mechanisms of the axis are asked the hook.
template <class Hook, class Axis>
inline constexpr bool is_asked = has_base<HooksOf<Axis>, typename hook_base<Hook>::type>;
template <class Hook>
struct asked_of {
  template <class Axis>
  struct is : std::bool_constant<is_asked<Hook, Axis>> {};
  using axes = filtered_t<WrappingOrder, is>;
};
/// The refusal of a mechanism's hook that would never be called; `refuse::Nothing` if it has no
/// such hook, or is asked it.
template <class Policy, class Hook, class Axes = void>
struct never_asked : refuse::is<refuse::Nothing> {};
template <class Policy, class Hook>
  requires(!is_asked<Hook, axis_of_t<Policy>> && has_hook<Hook, Mechanism<Policy>>)
struct never_asked<Policy, Hook> : never_asked<Policy, Hook, typename asked_of<Hook>::axes> {};
template <class Policy, class Hook, class... Axes>
struct never_asked<Policy, Hook, AxisList<Axes...>>
    : refuse::is<refuse::HookNeverAsked<Policy, axis_of_t<Policy>, Hook, Axes...>> {};

/// The refusal of a mechanism's hook that has a former name.
template <class Policy, class Old, class Hook>
struct renamed : refuse::is<refuse::Nothing> {};
template <class Policy, class Old, class Hook>
  requires(is_asked<Hook, axis_of_t<Policy>> && has_hook<Old, Mechanism<Policy>>)
struct renamed<Policy, Old, Hook> : refuse::is<refuse::RenamedHook<Policy, Old, Hook>> {};
/// The refusal of a mechanism's declaration that has a former name, which nothing would read.
template <class Policy>
struct renamed_declaration : refuse::is<refuse::Nothing> {};
template <class Policy>
  requires(std::derived_from<Mechanism<Policy>, StorageHooks> &&
           requires { Mechanism<Policy>::keeps_working; })
struct renamed_declaration<Policy>
    : refuse::is<refuse::RenamedHook<Policy, hook::keeps_working, hook::keeps_gathered>> {};

#define IKEBANA_CHECK_HOOK(name, ...) typename never_asked<Policy, hook::name>::type,
#define IKEBANA_CHECK_RENAMED(old, name) typename renamed<Policy, hook::old, hook::name>::type,
/// The first hook of the policy's mechanism that would never be called, as a refusal.
template <class Policy>
using first_never_asked_t =
    typename refuse::first<IKEBANA_EACH_HOOK(IKEBANA_CHECK_HOOK) IKEBANA_EACH_RENAMED_HOOK(
        IKEBANA_CHECK_RENAMED) typename renamed_declaration<Policy>::type>::type;
#undef IKEBANA_CHECK_RENAMED
#undef IKEBANA_CHECK_HOOK

// Is the hook declared, if it is called only then?

/// True if `&M::name` is the default of `Base`. A hook that is a template is not the default.
#define IKEBANA_IS_DEFAULT(name, Base)       \
  template <class M>                         \
  inline constexpr bool has_default_##name = \
      requires { requires std::is_same_v<decltype(&M::name), decltype(&Base::name)>; }
IKEBANA_IS_DEFAULT(gather, StorageHooks);
IKEBANA_IS_DEFAULT(begin_gather, StorageHooks);
IKEBANA_IS_DEFAULT(before_unit_backward, UnitBackwardHooks);
IKEBANA_IS_DEFAULT(after_unit_backward, UnitBackwardHooks);
#undef IKEBANA_IS_DEFAULT

template <class T>
inline constexpr bool is_undeclared = std::is_same_v<std::remove_cv_t<T>, Undeclared>;

// True if a mechanism has the hook and declares nothing, not even that it is not to be called.
template <class M>
inline constexpr bool forgets_to_gather = false;
template <std::derived_from<StorageHooks> M>
inline constexpr bool forgets_to_gather<M> =
    !has_default_gather<M> && is_undeclared<decltype(M::moves_parameters)>;
template <class M>
inline constexpr bool forgets_to_begin = false;
template <std::derived_from<StorageHooks> M>
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

#undef IKEBANA_EACH_RENAMED_HOOK
#undef IKEBANA_EACH_HOOK
