#pragma once
// Summarises the memory of a step by kind and by unit, from the readings at its marks and from what
// a trainer holds after it.
#include <ikebana/advice/result.hpp>
#include <ikebana/advice/trainer_view.hpp>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/run/unit_activations.hpp>

namespace ikebana::detail {

/// The peak from one mark to the next, with the phase and the unit that it belongs to.
struct MemoryInterval {
  Phase phase;
  std::size_t unit;  // the root if no unit computes
  std::int64_t peak;
};

/// The readings at the marks of one step.
struct MemoryMarks {
  /// Counts the CPU until the model turns out to be on another device. Made at once, to count what
  /// the maker allocates.
  bridge::MemoryCounter counter{at::kCPU};
  std::int64_t before = counter.now();  // bytes in use that are not this trainer's
  std::vector<MemoryInterval> intervals = {};
  UnitActivations activations = {};
  std::vector<std::int64_t> gradients = {};  // bytes of each unit, when all gradients are complete
  std::int64_t gathered = 0;
  Estimate result = {};

  std::int64_t now() const { return counter.now() - before; }
  void mark(Phase phase, std::size_t unit);
};

/// Returns the bytes of the gradients of each unit's parameters. Several may share a storage, such
/// as a bucket.
std::vector<std::int64_t> gradient_bytes(const Masters& masters, const StepGradients& gradients,
                                         std::size_t units);

/// Sorts what a trainer holds after a step into the kinds of an estimate.
class Summary {
 public:
  Summary(MemoryMarks& marks, const TrainerView& trainer)
      : marks_(marks), trainer_(trainer), units_(trainer.units.units()), result_(marks.result) {}

  /// Adds all of it. The report's outputs do not count as held, because its owner may drop them.
  void add(const std::vector<at::Tensor>& batch, const Report& report);
  /// Adds what is held between steps, by kind.
  void add_held(const std::vector<at::Tensor>& batch);
  std::int64_t held() const;
  /// Adds the peak of the step, whose counter does not include `held` bytes.
  void add_peak(std::int64_t held);
  /// Adds what the step made, by unit.
  void add_step();
  /// Adds what Offload stores elsewhere, from the report of a step. Call it after `add_step`.
  void add_offloaded(const Report& report);

 private:
  void add_parameters();
  /// Adds what a saved state lists, sorted by its names, such as
  /// `ikebana.AdamW.block0.weight.exp_avg`. An average has the name of what is averaged.
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
