#pragma once
// What held memory when it ran out, for the error.
#include <ikebana/bridge/reduction_shape_rules.hpp>
#include <ikebana/estimate/savings.hpp>
#include <ikebana/estimate/summary.hpp>
#include <ikebana/hooks/unit_nodes.hpp>
#include <ikebana/run/dry_step.hpp>

namespace ikebana::detail {

/// Follows a step on tensors without memory: the bytes that it adds to those between steps.
template <class Core>
class StepMemory final : public DryListener {
 public:
  explicit StepMemory(Core& core) : core_(core) {
    ledger_->place = [this] { return nodes_.unit(phase_); };
  }
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;
  ~StepMemory() override { ledger_->place = nullptr; }

  /// Makes the step that is followed, by `step`. Before the first one another is made, to its end:
  /// it makes the state of optimizers, which later ones begin with. So it is under Offload, whose
  /// memory for copies is counted only where it was allocated without values. If only that cannot
  /// be done, as by an optimizer that reads values, what the first step takes is found out.
  template <class Batch, class Step>
  void run(const Batch& batch, const Step& step) {
    facts_.rows = rows_of(batch);
    constexpr bool offloads = !carries_out<Offload<Off>, decltype(core_.mechanisms.offload)>;
    // A buffer that was in no use between two ends of steps is freed: all those of former steps.
    for (int unused = 0; offloads && unused < 2; ++unused)
      core_.mechanisms.offload.end_step(core_.step.gradients, moved_);
    add_held(batch);
    before_ = held_ - marks_.now();
    if (core_.step.is_first() || offloads) {
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
    marks_.gathered = 0, gathered_before_ = gathered_bytes(core_);
    marks_.counter.reset_peak();
    step();
  }
  /// By kind, by unit, and at the peak. Once, after the step.
  template <class Batch>
  const Estimate& estimate() {
    Summary summary(marks_, core_);
    summary.add_step();
    summary.add_offloaded(moved_);
    summary.add_peak(before_);
    for (const MemoryInterval& one : marks_.intervals) {
      std::int64_t& peak = facts_.peaks[static_cast<std::size_t>(one.phase)];
      peak = std::max(peak, one.peak + before_);
    }
    marks_.result.other = std::max<std::int64_t>(0, facts_.held - held_);
    add_recipe<Batch>();
    return marks_.result;
  }
  const StepFacts& facts() const { return facts_; }
  const std::shared_ptr<bridge::FakeLedger>& ledger() const { return ledger_; }

  void begin_phase(Phase phase) override {
    mark();
    if (phase_ == Phase::Forward) marks_.activations.end_forward(without_gathered());
    phase_ = phase;
    if (phase == Phase::Optimizer) facts_.after_backward = before_ + marks_.now();
    if (phase == Phase::Forward) {
      marks_.activations.begin_forward(without_gathered(), core_.units.units().size());
      inputs_ = {}, nodes_.begin_forward(), facts_.unit_runs.clear();
    }
  }
  void begin_unit(std::size_t unit) override {
    if (phase_ != Phase::Forward) return;
    facts_.unit_runs.push_back({unit, 0});
    nodes_.begin(unit, marks_.activations.begin_unit(without_gathered()));
  }
  void add_input(const at::Tensor& t) override {
    if (phase_ == Phase::Forward && t.defined() && bridge::is_counted(t))
      facts_.unit_runs.back().inputs += inputs_.add(t);
  }
  void in_unit() override { without_gathered(); }
  void end_unit() noexcept override {
    if (phase_ != Phase::Forward) return;
    if (const auto last = nodes_.end())
      marks_.activations.end_unit(last->unit, without_gathered(), last->bytes);
  }
  bool ends_at_update() override {
    if (is_first_) return false;
    mark();
    const auto& step = core_.step;
    marks_.gradients =
        gradient_bytes(core_.parameters.masters(), step.gradients, core_.units.units().size());
    facts_.microbatches = static_cast<std::int64_t>(step.microbatches);
    facts_.ran_units = step.unit_was_run;
    core_.mechanisms.offload.end_step(step.gradients, moved_);
    return true;
  }

 private:
  /// What is in use now, by kind.
  template <class Batch>
  void add_held(const Batch& batch) {
    Summary summary(marks_, core_);
    summary.add_held(batch);
    held_ = summary.held();
  }
  /// 0 where it is not known, and of a range of batches.
  template <class Batch>
  static std::int64_t rows_of(const Batch& batch) {
    CountRows count;
    if constexpr (!Batches<const Batch>) for_each_field<batch_dim<Batch>>(batch, count);
    return std::max<std::int64_t>(count.rows(), 0);
  }
  std::int64_t without_gathered() {
    const std::int64_t gathered = gathered_bytes(core_);
    marks_.gathered = std::max(marks_.gathered, gathered);
    return marks_.now() - gathered;
  }
  void mark() { marks_.mark(phase_, ledger_->place_of_peak(core_.device)); }
  template <class Policy, class M>
  static constexpr bool carries_out = std::is_same_v<std::decay_t<decltype(M::values)>, Policy>;
  /// Which policies the recipe could have besides.
  template <class Batch>
  void add_recipe() {
    using M = std::decay_t<decltype(core_.mechanisms)>;
    using Summed = Summary<Core>;
    constexpr bool in_backward = Core::Optimizer::updates_in_backward;
    facts_.ran_units = facts_.ran_units && carries_out<Checkpoint<Off>, decltype(M::checkpoint)>;
    facts_.counts_microbatches = !Core::fits_memory && !Batches<const Batch> && !in_backward;
    facts_.masters_in_files = Summed::offloads_masters && Summed::offloads_to_file;
    facts_.is_adamw = carries_out<AdamW, decltype(M::optimizer)> && !facts_.masters_in_files;
    if (core_.units.units().size() > 1 && !in_backward && !Summed::offloads_masters) {
      if (carries_out<Shard<Off>, decltype(M::shard)>) facts_.ranks_of_fsdp = 2;
      if (carries_out<Shard<DDP>, decltype(M::shard)>) facts_.ranks_of_fsdp = marks_.result.ranks;
    }
    std::int64_t stored = 0;
    for (const at::Tensor& master : core_.parameters.masters().values) {
      stored += master.numel();
      facts_.stored += static_cast<std::int64_t>(master.nbytes());
      if (master.requires_grad()) facts_.state_in_8_bits += state_in_8_bits(master.numel());
    }
    facts_.gathered = marks_.gathered - gathered_before_;
    facts_.parts = stored == 0 ? 1 : (marks_.result.elements + stored / 2) / stored;
  }

  Core& core_;
  std::shared_ptr<bridge::FakeLedger> ledger_ = std::make_shared<bridge::FakeLedger>();
  MemoryMarks marks_{bridge::MemoryCounter(ledger_->of(core_.device)), 0};
  StepFacts facts_;
  Report moved_;  // has what Offload has moved
  Phase phase_ = Phase::Data;
  StorageBytes inputs_;
  UnitNodes nodes_;
  std::int64_t before_ = 0;  // in use, with memory
  std::int64_t held_ = 0, gathered_before_ = 0;
  bool is_first_ = false;
};

/// What is held between steps, by kind and by unit, as lines that follow an error. Of this rank.
template <class Core>
std::string held_memory(Core& core) {
  try {
    bridge::FakeLedger of_no_step;
    MemoryMarks marks{bridge::MemoryCounter(of_no_step.of(core.device)), 0};
    Summary(marks, core).add_held(at::Tensor());
    return memory_text(marks.result, {});
  } catch (const std::exception&) {  // the model is not what the trainer saves any more
    return {};
  }
}

/// What a step of this trainer takes, and which policies would save how much, as lines that follow
/// an error. `step` makes the step, and is called again, by `dry_step`; not where the last one had
/// the same sizes, and the policies the same values. With `failed`, it is the attempt that failed
/// last, of several that a policy made. Where that cannot find it out, what is held between steps:
/// where it reads values, and after LibTorch's engine has started threads, as it does for a GPU.
template <class Core, class Batch, class Step>
std::string explain_memory(Core& core, const Batch& batch, bool failed, Step&& step) {
  if constexpr (can_run_dry<Core>) {
    try {
      std::string of =
          c10::str(core.signature(), core.step.is_first(), core.step.microbatches, failed);
      for_each_tensor(batch, [&](const at::Tensor& t) {
        if (t.defined()) of += c10::str(t.sizes(), t.scalar_type());
      });
      auto& last = core.explained;
      if (last.of != of) {
        StepMemory<Core> memory(core);
        auto dry = [&] {
          if constexpr (requires { core.mechanisms.accumulate.repeat_failed(); })
            if (failed) core.mechanisms.accumulate.repeat_failed();
          memory.run(batch, step);
        };
        auto text = [&] { return memory_text(memory.template estimate<Batch>(), memory.facts()); };
        last = {of, dry_step(core, memory.ledger(), memory, dry, text).value_or("")};
      }
      if (!last.text.empty()) return last.text;
    } catch (const std::bad_alloc&) {  // of the host
    }
  }
  return held_memory(core);
}

}  // namespace ikebana::detail
