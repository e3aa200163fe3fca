#pragma once
// Divides the time of a training loop into phases.
#include <array>
#include <chrono>
#include <ikebana/detail/batch_wait.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/inner_phases.hpp>
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/observe/device_times.hpp>
#include <ikebana/observe/loop_parts.hpp>
#include <optional>

namespace ikebana::detail {

/// Measures the parts of each step: at each border between two parts, the time since the border
/// before belongs to the part that ends. So a part that is within another one does not count for
/// it. On a CPU it reads the host's clock at a border. On an accelerator it records an event, and
/// borders within backward, which another thread of the host gives to the device, are not seen.
class PhaseClock final : InnerPhaseListener {
 public:
  explicit PhaseClock(c10::Device device);

  /// RAII: a step of this thread. Steps do not nest.
  class Step {
   public:
    explicit Step(PhaseClock& clock) : clock_(clock) { clock_.begin_step(); }
    ~Step() { clock_.close(); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    /// Ends a step that was made, and begins the time until the next one. Returns its times on a
    /// CPU.
    std::optional<PhaseSeconds> end() { return clock_.end_step(); }

   private:
    PhaseClock& clock_;
  };
  /// RAII: a phase of the step.
  class Part {
   public:
    Part(PhaseClock& clock, Phase phase)
        : clock_(clock), before_(clock.enter(static_cast<LoopPart>(phase))) {}
    ~Part() { clock_.enter(before_); }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    PhaseClock& clock_;
    LoopPart before_;
  };

  bool is_open() const { return is_open_; }
  /// Calls `f(times)` for each step of an accelerator that has arrived since; with `waits`, for
  /// each that was made.
  void each_arrived(bool waits, c10::function_ref<void(const PhaseSeconds&)> f);

 private:
  using Clock = std::chrono::steady_clock;

  void begin_step();
  std::optional<PhaseSeconds> end_step();
  void close() noexcept;
  /// Begins a part, and returns the one before.
  LoopPart enter(LoopPart part) noexcept;
  IKEBANA_INLINE unsigned begin(InnerPhase phase) noexcept override;
  IKEBANA_INLINE void end(unsigned before) noexcept override;

  std::array<double, loop_parts> seconds_ = {};
  Clock::time_point last_;
  LoopPart part_ = LoopPart::Other;
  bool is_open_ = false, follows_ = false;
  double waited_ = 0;  // seconds for the batch of this step, before it
  InnerPhaseListener* outer_ = nullptr;
  std::optional<DeviceTimes> device_;
  BatchWaits waits_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/phase_clock.ipp>
#endif
