#pragma once
// Explains the memory of a step, by a step on tensors without memory: its parts by kind, by unit
// and at the peak, and the policies that would save memory. The error of a step that runs out of
// memory uses it, and so does `explain_peak`.
#include <ikebana/advice/explanation.hpp>
#include <ikebana/advice/summary.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/fake/fake_ledger.hpp>
#include <ikebana/run/dry_listener.hpp>
#include <ikebana/run/unit_nodes.hpp>
#include <memory>

namespace ikebana::detail {

/// Follows a step on tensors without memory, and counts the bytes that it adds to those between
/// steps.
class StepMemory final : public DryListener {
 public:
  explicit StepMemory(const TrainerView& trainer) : trainer_(trainer) {
    ledger_->place = [this] { return nodes_.unit(phase_); };
  }
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;
  ~StepMemory() override { ledger_->place = nullptr; }

  /// Makes the step that is followed, by `step`. If it would be the first one, another step is made
  /// before it, to its end, because that makes the state of optimizers, with which later steps
  /// begin. The same is done under Offload, whose memory for copies is counted only if it was
  /// allocated without values. If the earlier step fails, as with an optimizer that reads values,
  /// the memory of the first step is measured.
  void run(const BatchView& batch, const std::function<void()>& step);
  /// Returns the estimate by kind, by unit, and at the peak. Call it once, after the step.
  const Estimate& estimate(const BatchView& batch);
  const StepFacts& facts() const { return facts_; }
  const std::shared_ptr<bridge::FakeLedger>& ledger() const { return ledger_; }

  IKEBANA_INLINE void begin_phase(Phase phase) override;
  IKEBANA_INLINE void begin_unit(std::size_t unit) override;
  IKEBANA_INLINE void add_input(const at::Tensor& t) override;
  void in_unit() override { without_gathered(); }
  IKEBANA_INLINE void end_unit() noexcept override;
  IKEBANA_INLINE bool ends_at_update() override;

 private:
  /// Adds what is in use now, by kind.
  void add_held(const BatchView& batch);
  std::int64_t without_gathered();
  void mark() { marks_.mark(phase_, ledger_->place_of_peak(trainer_.device)); }
  void end_offload() {
    if (trainer_.end_offload) trainer_.end_offload(moved_);
  }
  /// Adds the facts about the recipe from which the savings of further policies are computed.
  void add_recipe(const BatchView& batch);
  std::size_t units() const { return trainer_.units.units().size(); }

  const TrainerView& trainer_;
  std::shared_ptr<bridge::FakeLedger> ledger_ = make_shared_apart<bridge::FakeLedger>();
  MemoryMarks marks_{bridge::MemoryCounter(ledger_->of(trainer_.device)), 0};
  StepFacts facts_;
  Report moved_;  // holds what Offload has moved
  Phase phase_ = Phase::Data;
  StorageBytes inputs_;
  UnitNodes nodes_;
  std::int64_t before_ = 0;  // bytes in use, in real tensors
  std::int64_t held_ = 0, gathered_before_ = 0;
  bool is_first_ = false;
};

/// Explains the memory of a step of this trainer, as lines that follow an error. `dry_step` calls
/// `step` again, unless the last step had the same sizes, and the policies the same values. If a
/// dry step is not possible, the lines say what is held between steps: this is so if the step reads
/// values, and after LibTorch's engine has started threads, as it does for a GPU.
std::string explain_step(const TrainerView& trainer, const BatchView& batch, bool failed,
                         const std::function<void()>& step);

/// From now on errors of this program, or of this plugin, have the explanation.
[[maybe_unused]] inline const bool explains_steps = (explanation = &explain_step, true);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/estimate/impl/explain.ipp>
#endif
