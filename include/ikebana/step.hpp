#pragma once
// THE PAGE: one optimizer step, top to bottom. The numbers are those of the hooks in hooks.hpp.
#include <ikebana/core/transaction.hpp>
#include <ikebana/core/totals.hpp>

namespace ikebana {

/// One update of the parameters from `batch`: one batch, which is cut into microbatches, or a range
/// of batches, each of which is one. An exception before "nothing may throw" undoes the step.
template <class Core, class Batch>
Report step(Core& core, const Batch& batch) {
  auto& m = core.mechanisms;
  return detail::around_step(m, [&] {
    detail::Transaction transaction(core);
    auto here = m.observe.around_phase(Phase::Data,
                                       [&] { return detail::place(m.device, batch, core.device); });
    auto microbatches = detail::cut(m.accumulate, here);                                // 1
    Totals totals(m.objective, core.model, microbatches, m.shard, core.attempts == 0);  // 2
    detail::Outputs outputs;
    auto rate = [&](double base) { return m.schedule.rate(base, core.attempts); };
    Run run(core, /*evaluating=*/false);

    for (const auto& microbatch : microbatches) {
      transaction.next_microbatch(std::size(microbatches));
      m.shard.set_requires_gradient_sync(transaction.is_last());  // 3
      m.observe.around_phase(Phase::Forward, [&] {
        Loss loss = core.parameters.around_model(core.units.units()[0], [&] {  // 4
          return m.precision.around_forward([&] {
            return m.objective.loss(run, core.model, microbatch);  // 5
          });
        });
        outputs.add(loss);
        totals.add(loss, core.roots);  // 6
      });
      m.observe.around_phase(Phase::Backward, [&] {
        m.optimizer.before_backward(totals.value(), core.microbatches, rate);
        core.backward();  // 7, 8
      });
    }

    return m.observe.around_phase(Phase::Optimizer, [&] {
      core.collect_gradients();
      StepGradients& gradients = core.gradients;
      const Masters& masters = core.parameters.masters();
      totals.finish(gradients, m.shard, core.deferred);
      m.precision.unscale(gradients);  // 9
      m.clip.clip(gradients, m.shard);
      m.precision.accept(gradients, totals.value(), m.shard, core.deferred);  // 10
      m.clip.accept(gradients, totals.value(), m.shard, core.deferred);
      transaction.check_first_step();
      m.each([&](auto& mechanism) { mechanism.prepare(masters, gradients, rate); });
      Report report = transaction.report(totals, outputs, rate(m.optimizer.base_lr()));

      transaction.commit();  // from here on nothing may throw
      if (!detail::rejected(gradients)) {
        m.optimizer.update(masters, gradients);  // 11
        m.each([&](auto& mechanism) { mechanism.after_update(masters, gradients); });
        core.parameters.refresh_gathered();  // 12
      }
      core.forget_gradients();
      m.each([&](auto& mechanism) { mechanism.end_step(gradients, report); });  // 13
      transaction.stop_clock(report);
      return report;
    });
  });
}

}  // namespace ikebana
