#pragma once
// Lists all hooks, one per row. This table makes the checks of mechanisms (checks/hooks.hpp), the
// names in refusals, and the tables of docs/step.md, which docs/site/hooks.py writes.
//
// A row is F(name, tier, base, result, call):
//   tier    `policy` is a hook for policies, which hooks.hpp documents. `engine` is a hook by which
//           the step asks the library's own mechanisms (hooks/engine.hpp). `optional` is such a
//           hook without a default.
//   base    It is the base that has the hook. A mechanism that derives from it is asked.
//   result  It is the type that the hook returns.
//   call    It calls the hook with the names of detail::HookArguments. `m` is a mechanism, and
//           `same` a constant one. `given` is a template whose parameters are not checked.

// clang-format off
#define IKEBANA_EACH_HOOK(F)                                                                       \
  F(attach, policy, Hooks, void, m.attach(given.device, given.table))                              \
  F(begin, policy, Hooks, void, m.begin(given.masters))                                            \
  F(prepare, policy, Hooks, void, m.prepare(given.masters, given.gradients, given.rate))           \
  F(after_update, policy, Hooks, void, m.after_update(given.masters, given.done))                  \
  F(end_step, policy, Hooks, void, m.end_step(given.done, given.report))                           \
  F(abort, policy, Hooks, void, m.abort())                                                         \
  F(end_epoch, policy, Hooks, void, m.end_epoch(given.epoch))                                      \
  F(describe, policy, Hooks, std::string, same.describe())                                         \
  F(state, policy, Hooks, void, m.state(given.archive, given.masters))                             \
  F(has_instructions, engine, Hooks, bool, same.has_instructions())                                \
  F(use_instructions, engine, Hooks, void, m.use_instructions(true))                               \
  F(around_step, policy, StepWrapperHooks, void, given)                                            \
  F(around_unit, policy, UnitWrapperHooks, void, given)                                            \
  F(before_unit_backward, policy, UnitBackwardHooks, void, m.before_unit_backward(given.unit))     \
  F(after_unit_backward, policy, UnitBackwardHooks, void, m.after_unit_backward(given.unit))       \
  F(gather, policy, StorageHooks, Tensors, m.gather(given.unit, given.tensors()))                  \
  F(begin_gather, policy, StorageHooks, void, m.begin_gather(given.unit, given.tensors()))         \
  F(reduce, policy, StorageHooks, Tensors, m.reduce(given.unit, given.tensors()))                  \
  F(to_masters, policy, StorageHooks, Tensors, m.to_masters(given.unit, given.tensors()))          \
  F(around_phase, policy, ObserveHooks, void, given)                                               \
  F(around_microbatch, engine, CaptureHooks, void, given)                                          \
  F(around_gradients, engine, CaptureHooks, void, given)                                           \
  F(ranks, policy, ShardHooks, Ranks, some_ranks(m.ranks()))                                       \
  F(open_step, engine, ShardHooks, void, m.open_step())                                            \
  F(set_requires_gradient_sync, engine, ShardHooks, void, m.set_requires_gradient_sync(true))      \
  F(make_model, engine, ShardHooks, void, given)                                                   \
  F(full_parameters, engine, ShardHooks, Tensors, m.full_parameters(given.unit))                   \
  F(begin_forward, engine, ShardHooks, void, m.begin_forward(true))                                \
  F(begin_unit, engine, ShardHooks, void, m.begin_unit(given.unit))                                \
  F(end_forward, engine, ShardHooks, void, m.end_forward())                                        \
  F(stored_rows, engine, ShardHooks, RowRange,                                                     \
    same.stored_rows(given.unit, std::size_t{0}, std::int64_t{1}))                                 \
  F(set_reduce_dtypes, engine, ShardHooks, void, m.set_reduce_dtypes(given.unit, DTypes()))        \
  F(to_masters_in_place, optional, ShardHooks, Tensors,                                            \
    m.to_masters_in_place(given.unit, given.tensors()))                                            \
  F(reshard_after_forward, engine, ShardHooks, std::optional<bool>, same.reshard_after_forward())  \
  F(forward_prefetch, engine, ShardHooks, bool, same.forward_prefetch())                           \
  F(backward_prefetch, engine, ShardHooks, bool, same.backward_prefetch())                         \
  F(finish_reductions, engine, ShardHooks, void, m.finish_reductions(given.masters))               \
  F(offer_exception, engine, ShardHooks, void, m.offer_exception(std::exception_ptr()))            \
  F(meet_again, engine, ShardHooks, void, m.meet_again())                                          \
  F(set_repeats, engine, ShardHooks, void, m.set_repeats(true))                                    \
  F(ran_out_of_memory, engine, ShardHooks, bool, m.ran_out_of_memory())                            \
  F(begin_step, engine, OffloadHooks, void, m.begin_step())                                        \
  F(around_loss, engine, OffloadHooks, void, given)                                                \
  F(finish_gradients, engine, OffloadHooks, void, m.finish_gradients(given.masters))               \
  F(await_refresh, optional, OffloadHooks, void, m.await_refresh(given.unit))                      \
  F(state_storage, engine, OffloadHooks, StateStorage*, m.state_storage())                         \
  F(gradient_storage, engine, OffloadHooks, GradientStorage*, m.gradient_storage())                \
  F(usable_plans, engine, CheckpointHooks, void, given)                                            \
  F(begin_plan, engine, CheckpointHooks, void, given)                                              \
  F(around_gathered_unit, engine, CheckpointHooks, void, given)                                    \
  F(around_forward, policy, PrecisionHooks, void, given)                                           \
  F(around_backward, engine, PrecisionHooks, void, given)                                          \
  F(scale, policy, PrecisionHooks, at::Tensor, m.scale(given.tensor))                              \
  F(unscale, policy, PrecisionHooks, void, m.unscale(given.gradients))                             \
  F(reduce_dtype, engine, PrecisionHooks, at::ScalarType, m.reduce_dtype(at::kFloat))              \
  F(rounding, engine, PrecisionHooks, UpdateRounding*, m.rounding())                               \
  F(restore_dtype, optional, PrecisionHooks, Tensors,                                              \
    m.restore_dtype(given.unit, given.tensors()))                                                  \
  F(refresh, optional, PrecisionOrOffload, void,                                                   \
    m.refresh(given.unit, given.masters.values))                                                   \
  F(accept, policy, PrecisionOrClip, void,                                                         \
    m.accept(given.gradients, given.loss, given.ranks, given.deferred))                            \
  F(split, policy, AccumulateHooks, void, given)                                                   \
  F(around_evaluated, engine, AccumulateHooks, void, given)                                        \
  F(close_step, policy, ClipHooks, void, m.close_step(given.gradients, given.ranks))               \
  F(clip, policy, ClipHooks, void, m.clip(given.gradients, given.ranks))                           \
  F(base_lr, policy, OptimizerHooks, double, same.base_lr())                                       \
  F(before_backward, engine, OptimizerHooks, void,                                                 \
    m.before_backward(given.loss, std::size_t{1}, given.rate))                                     \
  F(has_updated, engine, OptimizerHooks, bool, same.has_updated())                                 \
  F(update, policy, OptimizerHooks, void, m.update(given.masters, given.gradients))                \
  F(rate, policy, ScheduleHooks, double, same.rate(0.0, std::int64_t{0}))                          \
  F(momentum, policy, ScheduleHooks, double, same.momentum(0.0, std::int64_t{0}))                  \
  F(around_evaluation, policy, AverageHooks, void, given)                                          \
  F(restart, policy, AverageHooks, void, m.restart())                                              \
  F(freeze, policy, FreezeHooks, void, m.freeze(given.table))                                      \
  F(place, policy, DeviceOrLayout, void, given)
// clang-format on

// F(old name, name): hooks that were renamed. A mechanism with an old name would never be called.
// clang-format off
#define IKEBANA_EACH_RENAMED_HOOK(F)        \
  F(rest, to_masters)                       \
  F(give_back, restore_dtype)               \
  F(may_travel, set_requires_gradient_sync) \
  F(around_body, around_step)
// clang-format on
