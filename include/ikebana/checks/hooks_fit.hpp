#pragma once
// Whether the hooks of a mechanism can be called as those that they hide, which are in hooks.hpp.
#include <ikebana/core/off.hpp>

namespace ikebana::detail {

struct AnyRate {
  double operator()(double lr) const { return lr; }
};
using AnyRanks = Mechanism<Shard<Off>>;

/// Those that every mechanism is asked.
template <class M>
concept common_hooks_fit =
    requires(M m, const M& same, const UnitTable& table, const Masters& masters,
             StepGradients& gradients, const StepGradients& done, Report& report,
             const Epoch& epoch, Archive& archive, const AnyRate& rate) {
      m.attach(c10::Device(c10::kCPU), table), m.begin(masters);
      m.prepare(masters, gradients, rate);
      m.after_update(masters, done), m.end_step(done, report);
      m.abort(), m.end_epoch(epoch), same.describe(), m.state(archive, masters);
    };

// Those of the bases that it derives from.

template <class M>
concept unit_backward_fits =
    !std::derived_from<M, UnitBackwardHooks> ||
    requires(M m, const Unit& unit) { m.before_unit_backward(unit), m.after_unit_backward(unit); };
template <class M>
concept gather_fits =
    !std::derived_from<M, GatherHooks> ||
    requires(M m, const Unit& unit, Tensors t) { m.gather(unit, t), m.reduce(unit, t); };
template <class M>
concept storage_fits = !std::derived_from<M, StorageHooks> ||
                       requires(M m, const Unit& unit, Tensors t) { m.to_masters(unit, t); };
template <class M>
concept shard_fits = !std::derived_from<M, ShardHooks> ||
                     requires(M m, const M& same, const Count& count, const at::Tensor& t) {
                       same.ranks(), m.sum(count), m.sum(t), m.set_requires_gradient_sync(true);
                     };
template <class M>
concept precision_fits = !std::derived_from<M, PrecisionHooks> ||
                         requires(M m, const at::Tensor& seed, StepGradients& gradients) {
                           m.rounding(), m.scale(seed), m.unscale(gradients);
                         };
template <class M>
concept optimizer_fits =
    !std::derived_from<M, OptimizerHooks> ||
    requires(M m, const M& same, const Masters& masters, StepGradients& gradients) {
      same.base_lr(), same.has_updated(), m.update(masters, gradients);
    };
template <class M>
concept clip_fits =
    !std::derived_from<M, ClipHooks> ||
    requires(M m, StepGradients& gradients, AnyRanks& ranks) { m.clip(gradients, ranks); };
template <class M>
concept accept_fits =
    (!std::derived_from<M, ClipHooks> && !std::derived_from<M, PrecisionHooks>) ||
    requires(M m, StepGradients& gradients, const LossValue& loss, AnyRanks& ranks,
             DeferredCheck& deferred) { m.accept(gradients, loss, ranks, deferred); };
template <class M>
concept schedule_fits = !std::derived_from<M, ScheduleHooks> ||
                        requires(const M& same) { same.rate(0.0, std::int64_t{0}); };
template <class M>
concept freeze_fits = !std::derived_from<M, FreezeHooks> ||
                      requires(M m, const UnitTable& table) { m.freeze(table); };

template <class M>
concept hooks_fit = common_hooks_fit<M> && unit_backward_fits<M> && gather_fits<M> &&
                    storage_fits<M> && shard_fits<M> && precision_fits<M> && clip_fits<M> &&
                    accept_fits<M> && optimizer_fits<M> && schedule_fits<M> && freeze_fits<M>;

}  // namespace ikebana::detail
