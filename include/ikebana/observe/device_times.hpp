#pragma once
// Times of steps on an accelerator, which are read once the device has computed them.
#include <deque>
#include <ikebana/detail/torch.hpp>
#include <optional>
#include <span>
#include <vector>

namespace ikebana::detail {

/// Records an event at each border between two parts of a step. The host waits for none of them:
/// the times of a step are known some steps later. Events are used again.
class DeviceTimes {
 public:
  /// Parts are numbers below `parts`. What lies between two steps belongs to `between`.
  DeviceTimes(c10::Device device, std::size_t parts, std::size_t between)
      : device_(device), seconds_(parts), between_(between) {}

  /// Begins a step. What the device computes from here on belongs to `part`. The times of the
  /// step come with `waited`.
  void begin_step(std::size_t part, double waited = 0);
  void enter(std::size_t part) noexcept;
  void end_step() noexcept;
  /// Forgets the step that was begun.
  void abort() noexcept { is_recorded_ = false, follows_ = false; }
  /// The seconds of each part of a step, and what it was begun with.
  using Receive = c10::function_ref<void(std::span<double> seconds, double waited)>;
  /// Calls `f` for each step that the device has ended, or, with `waits`, for all.
  void each_arrived(bool waits, Receive f);

 private:
  /// A border: the event, and the part that begins with it.
  struct Border {
    c10::Event event;
    std::size_t part;
  };
  struct Step {
    std::vector<Border> borders = {};
    std::size_t used = 0;  // how many borders; the last one ends the step
    double waited = 0;
    bool follows = false;  // the step before it was recorded, too
  };
  /// The most steps of which the times are on their way. If there are more, a step is not recorded.
  static constexpr std::size_t most_steps = 64;

  void add(std::size_t part);
  void read(const Step& step);

  c10::Device device_;
  std::vector<double> seconds_;  // the times of the step that is read
  std::size_t between_;
  Step present_;
  bool is_recorded_ = false, follows_ = false;
  std::deque<Step> pending_;
  std::vector<Step> idle_;          // whose events are used again
  std::optional<c10::Event> last_;  // the end of the last step that was read
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/device_times.ipp>
#endif
