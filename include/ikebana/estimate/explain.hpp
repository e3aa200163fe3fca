#pragma once
// What a step takes, by kind, by unit and at its peak, and which policies would save how much: for
// the error of a step that runs out of memory, and for `explain_peak`.
#include <ikebana/advice/explanation.hpp>
#include <ikebana/advice/summary.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/fake/fake_ledger.hpp>
#include <ikebana/hooks/unit_nodes.hpp>
#include <ikebana/run/dry_listener.hpp>
#include <memory>

namespace ikebana::detail {

/// Follows a step on tensors without memory: the bytes that it adds to those between steps.
class StepMemory final : public DryListener {
 public:
  explicit StepMemory(const TrainerView& trainer) : trainer_(trainer) {
    ledger_->place = [this] { return nodes_.unit(phase_); };
  }
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;
  ~StepMemory() override { ledger_->place = nullptr; }

  /// Makes the step that is followed, by `step`. Before the first one another is made, to its end:
  /// it makes the state of optimizers, which later ones begin with. So it is under Offload, whose
  /// memory for copies is counted only where it was allocated without values. If only that cannot
  /// be done, as by an optimizer that reads values, what the first step takes is found out.
  void run(const BatchView& batch, const std::function<void()>& step);
  /// By kind, by unit, and at the peak. Once, after the step.
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
  /// What is in use now, by kind.
  void add_held(const BatchView& batch);
  std::int64_t without_gathered();
  void mark() { marks_.mark(phase_, ledger_->place_of_peak(trainer_.device)); }
  void end_offload() {
    if (trainer_.end_offload) trainer_.end_offload(moved_);
  }
  /// Which policies the recipe could have besides.
  void add_recipe(const BatchView& batch);
  std::size_t units() const { return trainer_.units.units().size(); }

  const TrainerView& trainer_;
  std::shared_ptr<bridge::FakeLedger> ledger_ = make_shared_apart<bridge::FakeLedger>();
  MemoryMarks marks_{bridge::MemoryCounter(ledger_->of(trainer_.device)), 0};
  StepFacts facts_;
  Report moved_;  // has what Offload has moved
  Phase phase_ = Phase::Data;
  StorageBytes inputs_;
  UnitNodes nodes_;
  std::int64_t before_ = 0;  // in use, with memory
  std::int64_t held_ = 0, gathered_before_ = 0;
  bool is_first_ = false;
};

/// What a step of this trainer takes, as lines that follow an error. `step` makes the step, and is
/// called again, by `dry_step`; not where the last one had the same sizes, and the policies the
/// same values. Where that cannot find it out, what is held between steps: where it reads values,
/// and after LibTorch's engine has started threads, as it does for a GPU.
std::string explain_step(const TrainerView& trainer, const BatchView& batch, bool failed,
                         const std::function<void()>& step);

/// Errors of this program, or of this plugin, say it from now on.
[[maybe_unused]] inline const bool explains_steps = (explanation = &explain_step, true);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/estimate/impl/explain.ipp>
#endif
