#pragma once
// Measures how long each unit takes, in forward and in backward.
#include <chrono>
#include <ikebana/observe/device_times.hpp>
#include <optional>
#include <vector>

namespace ikebana::detail {

/// Divides the time of a step among units: from one border to the next it belongs to the unit that
/// computes, a unit within another one without that. On a CPU a border reads the host's clock, on
/// an accelerator it records an event.
class UnitClock {
 public:
  enum Direction : std::size_t { Forward, Backward };
  /// A unit in one direction, or nothing.
  using Part = std::size_t;

  UnitClock(c10::Device device, std::size_t units);
  Part part(std::size_t unit, Direction direction) const { return 2 * unit + direction; }
  Part nothing() const { return sums_.size(); }

  void begin_step();
  /// Begins a part, and returns the one before.
  Part enter(Part part) noexcept;
  Part present() const { return part_; }
  /// Ends a step that was made, and counts it.
  void end_step();
  /// Forgets the step.
  void abort() noexcept;
  /// Forgets all steps.
  void reset();

  /// Returns the number of steps that are counted. Waits for an accelerator.
  std::int64_t steps();
  /// Returns the seconds of a part, over all these steps.
  double seconds(Part part) const { return sums_[part]; }

 private:
  using Clock = std::chrono::steady_clock;

  void count(std::span<const double> seconds);

  std::vector<double> sums_, times_;  // over all steps, and in this one
  std::int64_t steps_ = 0;
  Part part_;
  Clock::time_point last_;
  std::optional<DeviceTimes> device_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/unit_clock.ipp>
#endif
