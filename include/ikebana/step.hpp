#pragma once
// Makes one optimizer step, top to bottom. The numbers are the ones of the hooks in hooks.hpp.
#include <ikebana/core/around_step.hpp>
#include <ikebana/core/microbatches.hpp>
#include <ikebana/core/step_report.hpp>
#include <ikebana/core/transaction.hpp>
#include <ikebana/hooks/step_rate.hpp>

namespace ikebana {

/// One update of the parameters from `batch`: one batch, which is cut into microbatches, or a range
/// of batches, each of which is one. An exception before the commit undoes the step, on all ranks.
template <class Core, class Batch>
Report step(Core& core, const Batch& batch) {
  auto& m = core.mechanisms;
  return detail::around_step(core, batch, [&] {
    // Host prologue
    detail::StepReport reported;
    detail::BatchPlacement placement(core);
    detail::Transaction transaction(core);
    StepState& state = core.step;
    const Masters& masters = core.parameters.masters();
    auto here = m.observe.around_phase(Phase::Data, [&] { return placement.place(batch); });
    auto microbatches = detail::cut(core, here);  // 1
    auto ranks = m.shard.ranks();
    Totals totals(m.objective, core.model, microbatches, ranks, state.attempts);  // 2
    transaction.open(totals, microbatches);
    const StepRate rate(m.schedule, state.attempts);
    Run run(core, /*evaluating=*/false);

    // Device body
    for (const auto& microbatch : microbatches) {
      state.next_microbatch(std::size(microbatches));
      m.shard.set_requires_gradient_sync(state.is_last_microbatch());  // 3
      const detail::DummyScope scope(core, run, state.is_after_own());
      m.observe.around_phase(Phase::Forward, [&] {
        Loss loss = core.forward(run, microbatch);  // 4, 5
        reported.add_outputs(loss);
        totals.add(loss, state.roots);  // 6
      });
      m.observe.around_phase(Phase::Backward, [&] {
        m.optimizer.before_backward(totals.value(), state.microbatches, rate);
        core.backward();  // 7, 8
      });
    }

    Report report = m.observe.around_phase(Phase::Optimizer, [&] {
      m.shard.finish_reductions(masters);
      m.offload.finish_gradients(masters);
      StepGradients& gradients = core.collect_gradients();
      transaction.close(totals, gradients);
      totals.finish(gradients, state.deferred);
      m.precision.unscale(gradients);  // 9
      m.clip.clip(gradients, ranks);
      m.precision.accept(gradients, totals.value(), ranks, state.deferred);  // 10
      m.clip.accept(gradients, totals.value(), ranks, state.deferred);
      transaction.begin_update(masters, gradients);
      m.each([&](auto& mechanism) { mechanism.prepare(masters, gradients, rate); });
      Report result = reported.make(state, totals, m.optimizer, rate);

      const bool updated = transaction.update(masters, gradients);  // 11
      transaction.commit();  // from here on nothing may throw
      if (updated) {
        m.each([&](auto& mechanism) { mechanism.after_update(masters, gradients); });
        core.parameters.mark_stale();  // 12
      }
      core.forget_gradients();
      m.each([&](auto& mechanism) { mechanism.end_step(gradients, result); });  // 13
      return result;
    });

    // Host epilogue
    reported.stop_clock(report);
    return report;
  });
}

}  // namespace ikebana
