#pragma once
// Defines the policy Observe<Memory> and its mechanism.
#include <functional>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/observe/memory_meter.hpp>
#include <ikebana/run/parameter_bytes.hpp>
#include <optional>

namespace ikebana {

using bridge::MemoryLimit;

/// Reports the peak of allocated bytes during a step, the model included, in `Report::peak_bytes`.
/// On a CPU, it puts a counting allocator in front of LibTorch's for the whole process; on a GPU,
/// it reads (and resets) the statistics of LibTorch's caching allocator.
///
/// If one of its fields is set, `Report::memory` has more (observe/memory_report.hpp). A field that
/// is off costs one comparison per step, phase and forward of a unit. All may be changed between
/// steps. Throws BadValue for a `free_below` that is negative or more than the device has, and for
/// `clean_up` without one.
template <>
struct Observe<Memory> {
  /// Reports the peak of each phase, the phase of the step's peak, and the free memory. Costs some
  /// reads of a counter, and on Linux of /proc, per step.
  bool by_phase = false;
  /// Reports the same, and for each unit the activations that it leaves, and its peaks. On a CPU
  /// every allocation of the process during the step then also costs some hundred nanoseconds,
  /// under a lock. If the model declares no units, it reports the same for its modules, on a CPU:
  /// an operator belongs to the module whose parameter it is given. Each is intercepted for that.
  bool by_unit = false;
  /// In bytes: `clean_up` is called before a step if less is free on the machine or its control
  /// group, or on the device. 0: never.
  std::int64_t free_below = 0;
  /// If it is empty, `bridge::release_cached_memory` is called, which releases what allocators
  /// keep. Your own function may drop caches, and call that as well. If it throws, the step throws
  /// the same and changes nothing.
  std::function<void()> clean_up = {};
};

template <>
struct Mechanism<Observe<Memory>> : ObserveHooks {
  using carries_out = Observe<Memory>;
  Observe<Memory> values;
  explicit Mechanism(Observe<Memory> v) : values(std::move(v)) {}

  void attach(c10::Device device, const UnitTable& table);
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core& core, const Batch&, Next&& next) {
    if (says_more()) return observed_step(core, next);
    counter_->reset_peak();
    return next();
  }
  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    if (meter_ == nullptr || !meter_->is_open()) return next();
    const typename Meter::PhaseScope scope(*meter_, phase);
    return next();
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    if (meter_ == nullptr || !meter_->follows_units()) return next(std::forward<Args>(args)...);
    const typename Meter::UnitScope scope(*meter_, unit);
    return next(std::forward<Args>(args)...);
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate&) {
    if (meter_ != nullptr && meter_->is_open()) meter_->describe(masters, gradients);
  }
  void end_step(const StepGradients&, Report& report) noexcept;

 private:
  using Meter = detail::MemoryMeter;

  bool says_more() const;
  template <class Core, class Next>
  auto observed_step(Core& core, Next&& next) {
    check();
    const std::optional<std::int64_t> cleaned_up = clean_up_where_low();
    counter_->reset_peak();
    if (meter_ == nullptr) meter_ = std::make_unique<Meter>(device_, *table_, uncounted_);
    std::function<std::int64_t()> gathered;
    if constexpr (std::decay_t<decltype(core.mechanisms)>::moves_parameters)
      gathered = [&core] { return detail::gathered_bytes(core); };
    struct Close {
      Meter& meter;
      ~Close() { meter.close(); }
    };
    const Close close{*meter_};
    meter_->open(values.by_unit, std::move(gathered));
    auto report = next();
    meter_->close();
    std::shared_ptr<MemoryReport> memory = meter_->finish(cleaned_up);
    try {
      memory->facts = bridge::memory_facts(device_);
    } catch (const std::bad_alloc&) {  // the update was made, and needs no facts
    }
    report.memory = std::move(memory);
    return report;
  }
  void check() const;
  /// Cleans up if too little is free. Returns how many bytes became free; no value if enough were
  /// free.
  std::optional<std::int64_t> clean_up_where_low();

  std::optional<bridge::MemoryCounter> counter_;
  std::int64_t uncounted_ = 0;  // allocated before the counting allocator was in place
  c10::Device device_ = at::kCPU;
  const UnitTable* table_ = nullptr;
  std::unique_ptr<Meter> meter_;  // made once a field is set
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/memory.ipp>
#endif
