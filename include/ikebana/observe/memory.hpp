#pragma once
// The policy Observe<Memory> and its mechanism.
#include <functional>
#include <ikebana/bridge/memory.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/uncounted.hpp>
#include <ikebana/observe/memory_meter.hpp>
#include <optional>

namespace ikebana {

using bridge::MemoryLimit;

/// Reports the peak of allocated bytes during a step, the model included, in `Report::peak_bytes`.
/// On a CPU, it puts a counting allocator in front of LibTorch's for the whole process; on a GPU,
/// it reads (and resets) the statistics of LibTorch's caching allocator.
///
/// With one of its fields, `Report::memory` says more (observe/memory_report.hpp). A field that is
/// off costs one comparison per step, phase and forward of a unit. All may be changed between
/// steps. Throws BadValue for a `free_below` that cannot be, and for `clean_up` without one.
template <>
struct Observe<Memory> {
  /// The peak of each phase, where the peak of the step is, and what is free: some reads of a
  /// counter, and on Linux of /proc, per step.
  bool by_phase = false;
  /// And for each unit the activations that it leaves, and its peaks. On a CPU every allocation of
  /// the process during the step then also costs some hundred nanoseconds, under a lock.
  bool by_unit = false;
  /// Bytes: before a step, where less is free on the machine or its control group, or on the
  /// device, `clean_up` is called. 0: never.
  std::int64_t free_below = 0;
  /// Empty: `bridge::release_cached_memory`, which releases what allocators keep. One of your own
  /// may drop caches, and call that as well. What it throws, the step throws, and nothing changed.
  std::function<void()> clean_up = {};
};

template <std::same_as<Observe<Memory>> Policy>
struct Mechanism<Policy> : ObserveHooks {
  using carries_out = Observe<Memory>;
  Observe<Memory> values;
  explicit Mechanism(Observe<Memory> v) : values(std::move(v)) {}

  void attach(c10::Device device, const UnitTable& table) {
    counter_.emplace(device);
    uncounted_ = detail::uncounted_bytes(table);
    device_ = device, table_ = &table;
    check();
  }
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
  void end_step(const StepGradients&, Report& report) noexcept {
    report.peak_bytes = counter_->peak() + uncounted_;
  }

 private:
  using Meter = detail::MemoryMeter<>;

  bool says_more() const {
    return values.by_phase || values.by_unit || values.free_below != 0 || values.clean_up;
  }
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
  void check() const {
    if (values.free_below < 0)
      throw BadValue("Observe<Memory>: free_below is " + std::to_string(values.free_below) +
                     " bytes. Write how many should be free, or 0.");
    if (values.clean_up && values.free_below == 0)
      throw BadValue(
          "Observe<Memory>: clean_up is never called, since free_below is 0. Write below how many "
          "free bytes it is.");
    if (values.free_below == 0 || bridge::sources_of_thread != nullptr) return;
    const MemoryFacts facts = bridge::memory_facts(device_);
    if (facts.total && values.free_below > *facts.total)
      throw BadValue("Observe<Memory>: free_below is " + detail::bytes_text(values.free_below) +
                     ", and " + device_.str() + " has " + detail::bytes_text(*facts.total) +
                     " in all, so that every step would clean up. Write less.");
  }
  /// How many bytes became free; no value: enough were.
  std::optional<std::int64_t> clean_up_where_low() {
    if (values.free_below == 0 || bridge::sources_of_thread != nullptr) return {};
    const MemoryFacts before = bridge::memory_facts(device_);
    if (!before.free)
      throw BadValue("Observe<Memory>: free_below is set, and it is not known how much of " +
                     device_.str() + " is free. Leave it out.");
    if (*before.free >= values.free_below) return {};
    if (values.clean_up) values.clean_up();
    else bridge::release_cached_memory(device_);
    const MemoryFacts after = bridge::memory_facts(device_);
    return std::max<std::int64_t>(0, after.free.value_or(0) - *before.free);
  }

  std::optional<bridge::MemoryCounter> counter_;
  std::int64_t uncounted_ = 0;  // allocated before the counting allocator was in place
  c10::Device device_ = at::kCPU;
  const UnitTable* table_ = nullptr;
  std::unique_ptr<Meter> meter_;  // once a field was set
};

}  // namespace ikebana
