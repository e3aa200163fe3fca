#pragma once
// Hooks that a mechanism has and is never asked, since its policy is on another axis.
#include <ikebana/grammar/diagnosis.hpp>
#include <ikebana/grammar/refuse_use.hpp>
#include <ikebana/grammar/wrapping_order.hpp>
#include <ikebana/hooks.hpp>

// Those of the axes. A hook of `Hooks` is asked of every mechanism.
// clang-format off
#define IKEBANA_EACH_HOOK(F)                                                                    \
  F(around_step) F(around_phase) F(around_unit) F(before_unit_backward)                         \
  F(after_unit_backward) F(around_gathered_unit) F(around_body) F(around_forward)               \
  F(around_backward)                                                                            \
  F(around_loss) F(finish_gradients) F(begin_step) F(gather) F(begin_gather) F(reduce)          \
  F(to_masters) F(restore_dtype) F(refresh) F(rounding) F(reduce_dtype) F(scale) F(unscale)     \
  F(ranks) F(stored_rows) F(open_step) F(finish_reductions) F(offer_exception) F(close_step)    \
  F(set_requires_gradient_sync) F(split) F(clip) F(accept) F(base_lr) F(before_backward)        \
  F(has_updated) F(update) F(rate) F(around_evaluation) F(restart) F(freeze) F(place)           \
  F(state_storage) F(to_masters_in_place) F(set_reduce_dtypes) F(reshard_after_forward)         \
  F(forward_prefetch) F(backward_prefetch) F(begin_forward) F(begin_unit) F(end_forward)        \
  F(make_model) F(full_parameters) F(meet_again) F(set_repeats) F(ran_out_of_memory)            \
  F(around_evaluated) F(usable_plans) F(begin_plan) F(gradient_storage) F(momentum)
// clang-format on

namespace ikebana {

/// The names of hooks, for the texts of refusals.
namespace hook {
#define IKEBANA_DECLARE_HOOK(name) struct name;
IKEBANA_EACH_HOOK(IKEBANA_DECLARE_HOOK)
#undef IKEBANA_DECLARE_HOOK
}  // namespace hook

namespace detail {

// A mechanism has a hook, of any parameters, if its name is ambiguous in HookProbe.
struct HookNames {
#define IKEBANA_NAME_HOOK(name) void name();
  IKEBANA_EACH_HOOK(IKEBANA_NAME_HOOK)
#undef IKEBANA_NAME_HOOK
};
template <class M>
struct HookProbe : M, HookNames {};
template <class M>
  requires std::is_final_v<M>
struct HookProbe<M> : HookNames {};

/// True where `M` has a member function of that name, its own or inherited. Of a class that is
/// final, templates and overloaded functions are not seen.
template <class Hook, class M>
inline constexpr bool has_hook = false;
#define IKEBANA_HAS_HOOK(name)                                                                  \
  template <class M>                                                                            \
  inline constexpr bool has_hook<hook::name, M> =                                               \
      (!requires { &HookProbe<M>::name; } || (std::is_final_v<M> && requires { &M::name; })) && \
      !requires { requires std::is_member_object_pointer_v<decltype(&M::name)>; };
IKEBANA_EACH_HOOK(IKEBANA_HAS_HOOK)
#undef IKEBANA_HAS_HOOK
// Precision, Offload and Shard may have them, and have no default for them.
template <>
inline constexpr bool has_hook<hook::restore_dtype, PrecisionHooks> = true;
template <>
inline constexpr bool has_hook<hook::refresh, PrecisionHooks> = true;
template <>
inline constexpr bool has_hook<hook::refresh, OffloadHooks> = true;
template <>
inline constexpr bool has_hook<hook::to_masters_in_place, ShardHooks> = true;

template <class Hook>
struct asked_of {
  template <class Axis>
  struct is : std::bool_constant<has_hook<Hook, HooksOf<Axis>>> {};
  using axes = typename filtered<WrappingOrder, is>::type;
};
/// Why the hook of a mechanism would never be called; `refuse::Nothing` if it has no such hook, or
/// is asked it.
template <class Policy, class Hook, class Axes = void>
struct never_asked : refuse::is<refuse::Nothing> {};
template <class Policy, class Hook>
  requires(has_hook<Hook, Mechanism<Policy>> && !has_hook<Hook, HooksOf<axis_of_t<Policy>>>)
struct never_asked<Policy, Hook> : never_asked<Policy, Hook, typename asked_of<Hook>::axes> {};
template <class Policy, class Hook, class... Axes>
struct never_asked<Policy, Hook, AxisList<Axes...>>
    : refuse::is<refuse::HookNeverAsked<Policy, axis_of_t<Policy>, Hook, Axes...>> {};

#define IKEBANA_CHECK_HOOK(name) typename never_asked<Policy, hook::name>::type,
/// The first hook of the policy's mechanism that would never be called, as a refusal.
template <class Policy>
using first_never_asked_t =
    typename refuse::first<IKEBANA_EACH_HOOK(IKEBANA_CHECK_HOOK) refuse::Nothing>::type;
#undef IKEBANA_CHECK_HOOK

}  // namespace detail
}  // namespace ikebana

#undef IKEBANA_EACH_HOOK
