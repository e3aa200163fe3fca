#pragma once
// Defines the policy Observe<Phases> and its mechanism.
#include <ikebana/hooks.hpp>
#include <ikebana/observe/phase_clock.hpp>
#include <ikebana/observe/phase_summary.hpp>
#include <ikebana/observe/recent.hpp>
#include <optional>

namespace ikebana {

/// Measures where the time of a training goes: data, forward, backward, optimizer, and within them
/// what gathers parameters, reduces gradients, offloads tensors and recomputes units; the rest of
/// the step, and what lies between two steps.
/// `trainer.mechanism<Observe<Phases>>().summary()` has statistics, and on a CPU `Report::phases`
/// the times of each step. Not in `ikebana.hpp`: include <ikebana/observe.hpp>.
///
/// Each moment belongs to one phase, so that the shares add up to 1: a unit that is gathered in
/// forward counts as `gather`, and not as `forward`. On an accelerator the times are the device's
/// own, by events; the host waits for none, and work within backward, which another thread gives to
/// the device, counts as `backward`. Costs some reads of the clock per step, or some events, and no
/// allocation on a CPU. Throws BadValue for a `warmup` below 0 and a `keep` below 1.
template <>
struct Observe<Phases> {
  /// Steps at the beginning that are not counted, since they allocate, record and plan. A step that
  /// throws is not counted, and neither is the time between it and the next.
  std::int64_t warmup = 3;
  /// The statistics are over the last `keep` steps, of which each takes 80 bytes.
  std::int64_t keep = 1000;
};

template <>
struct Mechanism<Observe<Phases>> : ObserveHooks {
  using carries_out = Observe<Phases>;
  Observe<Phases> values;
  explicit Mechanism(Observe<Phases> v) : values(v) {}

  void attach(c10::Device device, const UnitTable&);
  template <class Core, class Batch, class Next>
  auto around_step(Core&, const Batch&, Next&& next) {
    add_arrived(/*waits=*/false);
    detail::PhaseClock::Step step(*clock_);
    auto report = next();
    report.phases = step.end();
    if (report.phases) add(*report.phases);
    return report;
  }
  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    if (!clock_->is_open()) return next();  // the step only measures memory
    const detail::PhaseClock::Part part(*clock_, phase);
    return next();
  }
  std::string describe() const;

  /// Returns statistics of the last `keep` steps. Waits for an accelerator.
  PhaseSummary summary();
  /// Forgets all steps, and counts `warmup` again. Waits for an accelerator.
  void reset();

 private:
  void add_arrived(bool waits);
  void add(const PhaseSeconds& times);

  std::optional<detail::PhaseClock> clock_;
  detail::Recent<PhaseSeconds> recent_;
  std::int64_t left_out_ = 0;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/phases.ipp>
#endif
