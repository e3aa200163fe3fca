#pragma once
#include <algorithm>
#include <ikebana/detail/recording.hpp>
#include <ikebana/observe/phase_clock.hpp>
#include <utility>

namespace ikebana::detail {

/// Returns the seconds as fields. The wait for the batch is a part of the time before the step.
inline PhaseSeconds phase_seconds(std::span<const double> parts, double waited) {
  PhaseSeconds seconds;
  for (std::size_t i = 0; i < loop_parts; ++i) seconds.*phase_fields[i].seconds = parts[i];
  waited = std::min(waited, seconds.between);
  seconds.between -= waited, seconds.data += waited;
  return seconds;
}

IKEBANA_INLINE PhaseClock::PhaseClock(c10::Device device) {
  if (!device.is_cpu())
    device_.emplace(device, loop_parts, static_cast<std::size_t>(LoopPart::Between));
}

IKEBANA_INLINE void PhaseClock::begin_step() {
  waited_ = waits_.take();
  outer_ = std::exchange(inner_phase_listener, static_cast<InnerPhaseListener*>(this));
  is_open_ = true;
  seconds_ = {};
  if (device_) device_->begin_step(static_cast<std::size_t>(LoopPart::Other), waited_);
  part_ = LoopPart::Between;
  if (std::exchange(follows_, false)) enter(LoopPart::Other);
  else part_ = LoopPart::Other, last_ = Clock::now();
}

IKEBANA_INLINE std::optional<PhaseSeconds> PhaseClock::end_step() {
  enter(LoopPart::Between);
  follows_ = true;
  if (!device_) return phase_seconds(seconds_, waited_);
  device_->end_step();
  return {};
}

IKEBANA_INLINE void PhaseClock::close() noexcept {
  inner_phase_listener = outer_;
  is_open_ = false;
  if (!follows_ && device_) device_->abort();  // the step threw
}

IKEBANA_INLINE LoopPart PhaseClock::enter(LoopPart part) noexcept {
  if (device_ && part != LoopPart::Between) device_->enter(static_cast<std::size_t>(part));
  const auto now = Clock::now();
  seconds_[static_cast<std::size_t>(part_)] += std::chrono::duration<double>(now - last_).count();
  last_ = now;
  return std::exchange(part_, part);
}

IKEBANA_INLINE unsigned PhaseClock::begin(InnerPhase phase) noexcept {
  if (recording()) return static_cast<unsigned>(part_);  // an event would be recorded, too
  return static_cast<unsigned>(enter(static_cast<LoopPart>(static_cast<unsigned>(LoopPart::Gather) +
                                                           static_cast<unsigned>(phase))));
}

IKEBANA_INLINE void PhaseClock::end(unsigned before) noexcept {
  if (static_cast<LoopPart>(before) != part_) enter(static_cast<LoopPart>(before));
}

IKEBANA_INLINE void PhaseClock::each_arrived(bool waits,
                                             c10::function_ref<void(const PhaseSeconds&)> f) {
  if (device_)
    device_->each_arrived(waits, [&](std::span<double> seconds, double waited) {
      f(phase_seconds(seconds, waited));
    });
}

}  // namespace ikebana::detail
