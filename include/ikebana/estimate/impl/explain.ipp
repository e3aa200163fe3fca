#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/estimate/explain.hpp>
#include <ikebana/run/dry_step.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void StepMemory::run(const BatchView& batch, const std::function<void()>& step) {
  facts_.rows = batch.rows;
  const bool offloads = trainer_.recipe.offloads;
  // A buffer that is not used between two ends of steps is freed, so this frees all buffers of
  // former steps.
  for (int unused = 0; offloads && unused < 2; ++unused) end_offload();
  add_held(batch);
  before_ = held_ - marks_.now();
  if (trainer_.step.is_first() || offloads) {
    is_first_ = true;
    try {
      step();
    } catch (const std::exception&) {
    }
    is_first_ = false;
    add_held(batch);
  }
  phase_ = Phase::Data;
  marks_.result.between_steps = facts_.held = before_ + marks_.now();
  marks_.intervals.clear();
  marks_.activations.begin_step();
  marks_.gathered = 0, gathered_before_ = trainer_.gathered_bytes();
  marks_.counter.reset_peak();
  step();
}

IKEBANA_INLINE const Estimate& StepMemory::estimate(const BatchView& batch) {
  Summary summary(marks_, trainer_);
  summary.add_step();
  summary.add_offloaded(moved_);
  summary.add_peak(before_);
  for (const MemoryInterval& one : marks_.intervals) {
    std::int64_t& peak = facts_.peaks[static_cast<std::size_t>(one.phase)];
    peak = std::max(peak, one.peak + before_);
  }
  marks_.result.other = std::max<std::int64_t>(0, facts_.held - held_);
  add_recipe(batch);
  return marks_.result;
}

IKEBANA_INLINE void StepMemory::begin_phase(Phase phase) {
  mark();
  if (phase_ == Phase::Forward) marks_.activations.end_forward(without_gathered());
  phase_ = phase;
  if (phase == Phase::Optimizer) facts_.after_backward = before_ + marks_.now();
  if (phase == Phase::Forward) {
    marks_.activations.begin_forward(without_gathered(), units());
    inputs_ = {}, nodes_.begin_forward(), facts_.unit_runs.clear();
  }
}

IKEBANA_INLINE void StepMemory::begin_unit(std::size_t unit) {
  if (phase_ != Phase::Forward) return;
  facts_.unit_runs.push_back({unit, 0});
  nodes_.begin(unit, marks_.activations.begin_unit(without_gathered()));
}

IKEBANA_INLINE void StepMemory::add_input(const at::Tensor& t) {
  if (phase_ == Phase::Forward && t.defined() && bridge::is_counted(t))
    facts_.unit_runs.back().inputs += inputs_.add(t);
}

IKEBANA_INLINE void StepMemory::end_unit() noexcept {
  if (phase_ != Phase::Forward) return;
  if (const auto last = nodes_.end())
    marks_.activations.end_unit(last->unit, without_gathered(), last->bytes);
}

IKEBANA_INLINE bool StepMemory::ends_at_update() {
  if (is_first_) return false;
  mark();
  const StepState& step = trainer_.step;
  marks_.gradients = gradient_bytes(trainer_.masters, step.gradients, units());
  facts_.microbatches = static_cast<std::int64_t>(step.microbatches);
  facts_.ran_units = step.unit_was_run;
  end_offload();
  return true;
}

IKEBANA_INLINE void StepMemory::add_held(const BatchView& batch) {
  Summary summary(marks_, trainer_);
  summary.add_held(batch.tensors);
  held_ = summary.held();
}

IKEBANA_INLINE std::int64_t StepMemory::without_gathered() {
  const std::int64_t gathered = trainer_.gathered_bytes();
  marks_.gathered = std::max(marks_.gathered, gathered);
  return marks_.now() - gathered;
}

IKEBANA_INLINE void StepMemory::add_recipe(const BatchView& batch) {
  const RecipeFacts& recipe = trainer_.recipe;
  facts_.ran_units = facts_.ran_units && !recipe.checkpoints;
  facts_.counts_microbatches = recipe.can_count_microbatches && !batch.is_range;
  facts_.masters_in_files = recipe.offloads_masters && recipe.offloads_to_file;
  facts_.is_adamw = recipe.is_adamw && !facts_.masters_in_files;
  if (units() > 1 && !recipe.updates_in_backward && !recipe.offloads_masters) {
    if (recipe.shards_nothing) facts_.ranks_of_fsdp = 2;
    if (recipe.is_ddp) facts_.ranks_of_fsdp = marks_.result.ranks;
  }
  std::int64_t stored = 0;
  for (const at::Tensor& master : trainer_.masters.values) {
    stored += master.numel();
    facts_.stored += static_cast<std::int64_t>(master.nbytes());
    if (master.requires_grad()) facts_.state_in_8_bits += state_in_8_bits(master.numel());
  }
  facts_.gathered = marks_.gathered - gathered_before_;
  facts_.parts = stored == 0 ? 1 : (marks_.result.elements + stored / 2) / stored;
}

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
  } catch (const std::bad_alloc&) {  // the host has too little memory
  }
  return held_memory(trainer);
}

}  // namespace ikebana::detail
