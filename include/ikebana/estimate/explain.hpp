#pragma once
// What held memory when it ran out, for the error.
#include <ikebana/estimate/savings.hpp>
#include <ikebana/estimate/summary.hpp>
#include <ikebana/run/dry_step.hpp>

namespace ikebana::detail {

/// Follows a step on tensors without memory: the bytes that it adds to those between steps.
template <class Core>
class StepMemory final : public DryListener {
 public:
  explicit StepMemory(Core& core) : core_(core) {
    ledger_->place = [this] { return present_unit(); };
  }
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;
  ~StepMemory() override { ledger_->place = nullptr; }

  /// By kind, by unit, and at the peak. Once, after the step.
  template <class Batch>
  const Estimate& estimate(const Batch& batch) {
    Summary summary(marks_, core_);
    summary.add_held(batch);
    summary.add_step();
    Estimate& estimate = marks_.result;
    // The first step makes the optimizer's state in its update; later ones begin with it.
    const std::int64_t made = core_.step.is_first() ? made_by_update_ : 0;
    estimate.optimizer_state += made;
    const std::int64_t before = summary.held() - made;
    for (MemoryInterval& one : marks_.intervals) {
      if (one.phase != Phase::Optimizer) one.peak += made;
      std::int64_t& peak = facts_.peaks[static_cast<std::size_t>(one.phase)];
      peak = std::max(peak, one.peak + before);
    }
    summary.add_peak(before);
    estimate.between_steps = facts_.held = summary.held();
    add_recipe<Batch>();
    return estimate;
  }
  const StepFacts& facts() const { return facts_; }
  const std::shared_ptr<bridge::FakeLedger>& ledger() const { return ledger_; }

  void begin_phase(Phase phase) override {
    mark();
    if (phase_ == Phase::Forward) marks_.activations.end_forward(marks_.now());
    phase_ = phase;
    if (phase == Phase::Forward) {
      marks_.activations.begin_forward(marks_.now(), core_.units.units().size());
      inputs_ = {}, running_.clear(), calls_.clear(), facts_.unit_inputs = 0;
    }
    if (phase == Phase::Optimizer) before_update_ = marks_.now();
  }
  void begin_unit(std::size_t unit) override {
    if (phase_ != Phase::Forward) return;
    running_.push_back(
        {unit, at::sequence_number::peek(), marks_.activations.begin_unit(marks_.now())});
  }
  void add_input(const at::Tensor& t) override {
    if (phase_ == Phase::Forward && t.defined() && bridge::is_counted(t))
      facts_.unit_inputs += inputs_.add(t);
  }
  void end_unit() noexcept override {
    if (phase_ != Phase::Forward || running_.empty()) return;
    const Running& last = running_.back();
    marks_.activations.end_unit(last.unit, marks_.now(), last.bytes);
    calls_.push_back({last.unit, last.first_node, at::sequence_number::peek()});
    running_.pop_back();
  }
  void at_update() override {
    mark();
    made_by_update_ = std::max<std::int64_t>(0, marks_.now() - before_update_);
    const auto& step = core_.step;
    marks_.gradients =
        gradient_bytes(core_.parameters.masters(), step.gradients, core_.units.units().size());
    facts_.microbatches = static_cast<std::int64_t>(step.microbatches);
    facts_.ran_units = step.unit_was_run;
  }

 private:
  struct Running {
    std::size_t unit;
    std::uint64_t first_node;  // of the graph that autograd builds
    UnitActivations::Outer bytes;
  };
  /// The nodes that the forward of a unit has made; an inner one comes before the one around it.
  struct Call {
    std::size_t unit;
    std::uint64_t first, end;
  };
  void mark() { marks_.mark(phase_, ledger_->place_of_peak(core_.device)); }
  /// Whose forward runs, or whose node backward computes; 0: no unit's.
  std::size_t present_unit() const {
    if (phase_ == Phase::Forward) return running_.empty() ? 0 : running_.back().unit;
    const auto node = torch::autograd::get_current_node();
    if (phase_ != Phase::Backward || node == nullptr) return 0;
    for (const Call& call : calls_)
      if (call.first <= node->sequence_nr() && node->sequence_nr() < call.end) return call.unit;
    return 0;
  }
  template <class Policy, class M>
  static bool carries_out(const M& mechanism) {
    return std::is_same_v<std::decay_t<decltype(mechanism.values)>, Policy>;
  }
  /// Which policies the recipe could have besides.
  template <class Batch>
  void add_recipe() {
    const auto& m = core_.mechanisms;
    facts_.ran_units = facts_.ran_units && carries_out<Checkpoint<Off>>(m.checkpoint);
    facts_.counts_microbatches = !Core::fits_memory && !Batches<const Batch>;
    facts_.is_adamw = carries_out<AdamW>(m.optimizer);
    facts_.is_alone = carries_out<Shard<Off>>(m.shard);
  }

  Core& core_;
  std::shared_ptr<bridge::FakeLedger> ledger_ = std::make_shared<bridge::FakeLedger>();
  MemoryMarks marks_{bridge::MemoryCounter(ledger_->of(core_.device)), 0};
  StepFacts facts_;
  Phase phase_ = Phase::Data;
  StorageBytes inputs_;
  std::vector<Running> running_;
  std::vector<Call> calls_;  // of this microbatch
  std::int64_t before_update_ = 0, made_by_update_ = 0;
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
/// an error. `step` makes the step, and is called once more, by `dry_step`; not where the last one
/// had the same sizes, and the policies the same values. Where that cannot find it out, what is
/// held between steps: where it reads values, and after LibTorch's engine has started threads, as
/// it does for a GPU.
template <class Core, class Batch, class Step>
std::string explain_memory(Core& core, const Batch& batch, Step&& step) {
  if constexpr (can_run_dry<Core>) {
    try {
      std::string of = c10::str(core.signature(), core.step.is_first(), core.step.microbatches);
      for_each_tensor(batch, [&](const at::Tensor& t) {
        if (t.defined()) of += c10::str(t.sizes(), t.scalar_type());
      });
      ExplainedStep& last = core.explained;
      if (last.of != of) {
        StepMemory<Core> memory(core);
        auto text = [&] { return memory_text(memory.estimate(batch), memory.facts()); };
        last = {of, dry_step(core, memory.ledger(), memory, step, text).value_or("")};
      }
      if (!last.text.empty()) return last.text;
    } catch (const std::bad_alloc&) {  // of the host
    }
  }
  return held_memory(core);
}

}  // namespace ikebana::detail
