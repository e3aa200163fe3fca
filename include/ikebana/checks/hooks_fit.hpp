#pragma once
// Whether the hooks of a mechanism can be called as those that they hide, which are in hooks.hpp.
#include <concepts>
#include <ikebana/checks/never_asked.hpp>
#include <ikebana/core/off.hpp>

namespace ikebana::hook {
// Those of `Hooks`; never_asked.hpp has the others.
struct attach;
struct begin;
struct prepare;
struct after_update;
struct end_step;
struct abort;
struct end_epoch;
struct describe;
struct state;
}  // namespace ikebana::hook

namespace ikebana::detail {

struct AnyRate {
  double operator()(double lr) const { return lr; }
  double momentum(double base) const { return base; }
  std::int64_t step() const { return 0; }
};
using AnyRanks = OneRank;

Ranks some_ranks(OneRank);
Ranks some_ranks(Ranks);

/// What a step gives to hooks.
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
  const Count& count;
  const at::Tensor& tensor;
  Tensors (*tensors)();
};
template <class Result, class Needed>
concept gives = std::is_void_v<Needed> || std::convertible_to<Result, Needed>;

/// True for a hook that is given a copy of what it is to change. Of a template, the instance for
/// what a step gives to it.
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

/// Whether the hook of that name can be called as the one of `Base`, if `M` derives from `Base`.
template <class Hook, class M>
inline constexpr bool hook_fits = true;
#define IKEBANA_FITS(name, Base, Result, call)                                           \
  template <class M>                                                                     \
  inline constexpr bool hook_fits<hook::name, M> =                                       \
      !std::derived_from<M, Base> || requires(M m, const M& same, HookArguments given) { \
        { call } -> gives<Result>;                                                       \
      }
IKEBANA_FITS(attach, Hooks, void, m.attach(given.device, given.table));
IKEBANA_FITS(begin, Hooks, void, m.begin(given.masters));
IKEBANA_FITS(prepare, Hooks, void, m.prepare(given.masters, given.gradients, given.rate));
IKEBANA_FITS(after_update, Hooks, void, m.after_update(given.masters, given.done));
IKEBANA_FITS(end_step, Hooks, void, m.end_step(given.done, given.report));
IKEBANA_FITS(abort, Hooks, void, m.abort());
IKEBANA_FITS(end_epoch, Hooks, void, m.end_epoch(given.epoch));
IKEBANA_FITS(describe, Hooks, std::string, same.describe());
IKEBANA_FITS(state, Hooks, void, m.state(given.archive, given.masters));
IKEBANA_FITS(before_unit_backward, UnitBackwardHooks, void, m.before_unit_backward(given.unit));
IKEBANA_FITS(after_unit_backward, UnitBackwardHooks, void, m.after_unit_backward(given.unit));
IKEBANA_FITS(gather, GatherHooks, Tensors, m.gather(given.unit, given.tensors()));
IKEBANA_FITS(reduce, GatherHooks, Tensors, m.reduce(given.unit, given.tensors()));
IKEBANA_FITS(to_masters, StorageHooks, Tensors, m.to_masters(given.unit, given.tensors()));
IKEBANA_FITS(begin_gather, GatherHooks, void, m.begin_gather(given.unit, given.tensors()));
IKEBANA_FITS(ranks, ShardHooks, Ranks, some_ranks(m.ranks()));
IKEBANA_FITS(stored_rows, ShardHooks, RowRange,
             same.stored_rows(given.unit, std::size_t{0}, std::int64_t{1}));
IKEBANA_FITS(full_parameters, ShardHooks, Tensors, m.full_parameters(given.unit));
IKEBANA_FITS(set_reduce_dtypes, ShardHooks, void, m.set_reduce_dtypes(given.unit, DTypes()));
IKEBANA_FITS(reshard_after_forward, ShardHooks, std::optional<bool>, same.reshard_after_forward());
IKEBANA_FITS(forward_prefetch, ShardHooks, bool, same.forward_prefetch());
IKEBANA_FITS(backward_prefetch, ShardHooks, bool, same.backward_prefetch());
IKEBANA_FITS(open_step, ShardHooks, void, m.open_step());
IKEBANA_FITS(begin_forward, ShardHooks, void, m.begin_forward(true));
IKEBANA_FITS(begin_unit, ShardHooks, void, m.begin_unit(given.unit));
IKEBANA_FITS(end_forward, ShardHooks, void, m.end_forward());
IKEBANA_FITS(finish_reductions, ShardHooks, void, m.finish_reductions(given.masters));
IKEBANA_FITS(offer_exception, ShardHooks, void, m.offer_exception(std::exception_ptr()));
IKEBANA_FITS(meet_again, ShardHooks, void, m.meet_again());
IKEBANA_FITS(set_repeats, ShardHooks, void, m.set_repeats(true));
IKEBANA_FITS(ran_out_of_memory, ShardHooks, bool, m.ran_out_of_memory());
IKEBANA_FITS(reduce_dtype, PrecisionHooks, at::ScalarType, m.reduce_dtype(at::kFloat));
IKEBANA_FITS(close_step, ClipHooks, void, m.close_step(given.gradients, given.ranks));
IKEBANA_FITS(set_requires_gradient_sync, ShardHooks, void, m.set_requires_gradient_sync(true));
IKEBANA_FITS(state_storage, OffloadHooks, StateStorage*, m.state_storage());
IKEBANA_FITS(gradient_storage, OffloadHooks, GradientStorage*, m.gradient_storage());
IKEBANA_FITS(begin_step, OffloadHooks, void, m.begin_step());
IKEBANA_FITS(finish_gradients, OffloadHooks, void, m.finish_gradients(given.masters));
IKEBANA_FITS(rounding, PrecisionHooks, UpdateRounding*, m.rounding());
IKEBANA_FITS(scale, PrecisionHooks, at::Tensor, m.scale(given.tensor));
IKEBANA_FITS(unscale, PrecisionHooks, void, m.unscale(given.gradients));
IKEBANA_FITS(base_lr, OptimizerHooks, double, same.base_lr());
IKEBANA_FITS(has_updated, OptimizerHooks, bool, same.has_updated());
IKEBANA_FITS(before_backward, OptimizerHooks, void,
             m.before_backward(given.loss, std::size_t{1}, given.rate));
IKEBANA_FITS(update, OptimizerHooks, void, m.update(given.masters, given.gradients));
IKEBANA_FITS(clip, ClipHooks, void, m.clip(given.gradients, given.ranks));
IKEBANA_FITS(rate, ScheduleHooks, double, same.rate(0.0, std::int64_t{0}));
IKEBANA_FITS(momentum, ScheduleHooks, double, same.momentum(0.0, std::int64_t{0}));
IKEBANA_FITS(restart, AverageHooks, void, m.restart());
IKEBANA_FITS(freeze, FreezeHooks, void, m.freeze(given.table));
#undef IKEBANA_FITS
template <class M>
inline constexpr bool hook_fits<hook::accept, M> =
    (!std::derived_from<M, ClipHooks> && !std::derived_from<M, PrecisionHooks>) ||
    requires(M m, HookArguments given) {
      m.accept(given.gradients, given.loss, given.ranks, given.deferred);
    };
// Those that Precision and Shard may have, without a default.
template <class M>
inline constexpr bool hook_fits<hook::to_masters_in_place, M> =
    !std::derived_from<M, ShardHooks> || !has_hook<hook::to_masters_in_place, M> ||
    requires(M m, HookArguments given) {
      { m.to_masters_in_place(given.unit, given.tensors()) } -> gives<Tensors>;
    };
template <class M>
inline constexpr bool hook_fits<hook::restore_dtype, M> =
    !std::derived_from<M, PrecisionHooks> || !has_hook<hook::restore_dtype, M> ||
    requires(M m, const Unit& unit, Tensors t) {
      { m.restore_dtype(unit, std::move(t)) } -> gives<Tensors>;
    };
template <class M>
inline constexpr bool hook_fits<hook::refresh, M> =
    (!std::derived_from<M, PrecisionHooks> && !std::derived_from<M, OffloadHooks>) ||
    !has_hook<hook::refresh, M> ||
    requires(M m, const Unit& unit, const Tensors& t) { m.refresh(unit, t); };

/// True where a hook of that name would change only a copy of what it is given.
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

/// The first hook of the policy's mechanism that no step could call as it is meant, as a refusal.
template <class Policy, class... Hooks>
struct first_unfit_of : refuse::first<typename unfit<Policy, Hooks>::type...> {};
template <class Policy>
using first_unfit_t = typename first_unfit_of<
    Policy, hook::attach, hook::begin, hook::prepare, hook::after_update, hook::end_step,
    hook::abort, hook::end_epoch, hook::describe, hook::state, hook::before_unit_backward,
    hook::after_unit_backward, hook::gather, hook::begin_gather, hook::reduce, hook::to_masters,
    hook::ranks, hook::full_parameters, hook::stored_rows, hook::to_masters_in_place,
    hook::set_reduce_dtypes, hook::reshard_after_forward, hook::forward_prefetch,
    hook::backward_prefetch, hook::open_step, hook::begin_forward, hook::begin_unit,
    hook::end_forward, hook::finish_reductions, hook::offer_exception, hook::meet_again,
    hook::set_repeats, hook::ran_out_of_memory, hook::set_requires_gradient_sync,
    hook::state_storage, hook::gradient_storage, hook::begin_step, hook::finish_gradients,
    hook::reduce_dtype, hook::close_step, hook::rounding, hook::scale, hook::unscale, hook::base_lr,
    hook::has_updated, hook::before_backward, hook::update, hook::clip, hook::accept, hook::rate,
    hook::momentum, hook::restart, hook::freeze, hook::restore_dtype, hook::refresh>::type;

}  // namespace ikebana::detail
