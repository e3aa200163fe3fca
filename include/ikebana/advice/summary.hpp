#pragma once
// What was read at the marks of a step, and what is there after it, by kind and by unit.
#include <ikebana/advice/result.hpp>
#include <ikebana/advice/trainer_view.hpp>
#include <ikebana/bridge/memory.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/unit_activations.hpp>

namespace ikebana::detail {

/// The peak from one mark to the next, and what was in use there.
struct MemoryInterval {
  Phase phase;
  std::size_t unit;  // the root: no unit computes
  std::int64_t peak;
};

/// What the marks of one step say.
struct MemoryMarks {
  /// Of the CPU until the model turns out to be on another device: made at once, to count what the
  /// maker allocates.
  bridge::MemoryCounter counter{at::kCPU};
  std::int64_t before = counter.now();  // in use, of others
  std::vector<MemoryInterval> intervals = {};
  UnitActivations activations = {};
  std::vector<std::int64_t> gradients = {};  // of each unit, when they are complete
  std::int64_t gathered = 0;
  Estimate result = {};

  std::int64_t now() const { return counter.now() - before; }
  void mark(Phase phase, std::size_t unit);
};

/// The bytes of the gradients of each unit's parameters. Several may share a storage, as a bucket.
std::vector<std::int64_t> gradient_bytes(const Masters& masters, const StepGradients& gradients,
                                         std::size_t units);

/// Sorts what a trainer holds after a step into the kinds of an estimate.
class Summary {
 public:
  Summary(MemoryMarks& marks, const TrainerView& trainer)
      : marks_(marks), trainer_(trainer), units_(trainer.units.units()), result_(marks.result) {}

  /// The outputs of the report may be dropped by its owner.
  void add(const std::vector<at::Tensor>& batch, const Report& report);
  /// What is held between steps, by kind.
  void add_held(const std::vector<at::Tensor>& batch);
  std::int64_t held() const;
  /// The peak of the step, which counted all but `held` bytes.
  void add_peak(std::int64_t held);
  /// What the step made, by unit.
  void add_step();
  /// Of the report of a step, what lies elsewhere. After `add_step`.
  void add_offloaded(const Report& report);

 private:
  void add_parameters();
  /// What a saved state lists, under its names: `ikebana.AdamW.block0.weight.exp_avg`. An average
  /// has the name of what is averaged.
  void add_state();
  std::size_t unit_of(const std::string& parameter) const;

  MemoryMarks& marks_;
  const TrainerView& trainer_;
  const std::vector<Unit>& units_;
  Estimate& result_;
  StorageBytes counted_;
  std::int64_t kept_ = 0;  // copies that stay between steps
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/advice/impl/summary.ipp>
#endif
