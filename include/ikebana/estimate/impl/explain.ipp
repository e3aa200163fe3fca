#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/estimate/explain.hpp>
#include <ikebana/estimate/step_memory.hpp>
#include <ikebana/run/dry_step.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string explain_step(const TrainerView& trainer, const BatchView& batch,
                                        bool failed, const std::function<void()>& step) {
  if (!trainer.recipe.can_run_dry) return held_memory(trainer);
  try {
    const StepState& state = trainer.step;
    std::string of = c10::str(trainer.signature(), state.is_first(), state.microbatches, failed);
    for (const at::Tensor& t : batch.tensors) of += c10::str(t.sizes(), t.scalar_type());
    ExplainedStep& last = trainer.explained;
    if (last.of != of) {
      StepMemory memory(trainer);
      auto dry = [&] {
        if (failed && trainer.repeat_failed) trainer.repeat_failed();
        memory.run(batch, step);
      };
      auto text = [&] { return memory_text(memory.estimate(batch), memory.facts()); };
      const auto found = dry_step(trainer.step.dry, trainer.device, memory.ledger(), memory,
                                  trainer.pretend_ranks, dry, text);
      last = {of, found.value_or("")};
    }
    if (!last.text.empty()) return last.text;
  } catch (const std::bad_alloc&) {  // of the host
  }
  return held_memory(trainer);
}

}  // namespace ikebana::detail
