#pragma once
// The policy Observe<Memory> and its mechanism.
#include <ikebana/bridge/memory.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/uncounted.hpp>
#include <optional>

namespace ikebana {

using bridge::MemoryLimit;

/// Reports the peak of allocated bytes during a step, the model included, in `Report::peak_bytes`.
/// On a CPU, it puts a counting allocator in front of LibTorch's for the whole process; on a GPU,
/// it reads (and resets) the statistics of LibTorch's caching allocator.
template <>
struct Observe<Memory> {};

template <std::same_as<Observe<Memory>> Policy>
struct Mechanism<Policy> : ObserveHooks {
  using carries_out = Observe<Memory>;
  Observe<Memory> values;
  explicit Mechanism(Observe<Memory> v) : values(v) {}

  void attach(c10::Device device, const UnitTable& table) {
    counter_.emplace(device);
    uncounted_ = detail::uncounted_bytes(table);
  }
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core&, const Batch&, Next&& next) {
    counter_->reset_peak();
    return next();
  }
  void end_step(const StepGradients&, Report& report) noexcept {
    report.peak_bytes = counter_->peak() + uncounted_;
  }

 private:
  std::optional<bridge::MemoryCounter> counter_;
  std::int64_t uncounted_ = 0;  // allocated before the counting allocator was in place
};

}  // namespace ikebana
