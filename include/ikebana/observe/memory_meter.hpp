#pragma once
// Reads the memory of a step by phase and by unit.
#include <exception>
#include <functional>
#include <ikebana/bridge/memory_place.hpp>
#include <ikebana/hooks/gathered_bytes.hpp>
#include <ikebana/hooks/unit_nodes.hpp>
#include <ikebana/observe/memory_report.hpp>

namespace ikebana::detail {

/// Between phases, and before and after the forward of each unit, it reads a counter. By unit on a
/// CPU it also hears each allocation, on the thread that makes it, so that the peak of each forward
/// and backward is known: which unit a node belongs to follows from when it was made, so nothing is
/// registered with autograd. While it is open it is this thread's place source.
template <class = void>
class MemoryMeter final : public bridge::AllocationObserverV2, public bridge::MemoryPlaceSource {
 public:
  MemoryMeter(c10::Device device, const UnitTable& table, std::int64_t uncounted)
      : device_(device), table_(table), uncounted_(uncounted) {}
  ~MemoryMeter() override { close(); }

  /// Allocates all that the report needs. `gathered()` returns the bytes of gathered parameters,
  /// which are no activations; empty: there are none.
  void open(bool by_unit, std::function<std::int64_t()> gathered) {
    report_ = std::make_shared<MemoryReport>();
    report_->device = device_.str();
    by_unit_ = by_unit, gathered_ = std::move(gathered);
    const std::size_t units = by_unit ? table_.units().size() : 0;
    for (std::size_t u = 0; u < units; ++u) report_->units.push_back({table_.units()[u].name});
    activations_.begin_step();
    nodes_.begin_forward();
    phase_ = Phase::Data, heard_ = {};
    counter_.reset_peak();
    report_->before = counter_.now() + uncounted_;
    outer_ = std::exchange(bridge::place_source, this), is_open_ = true;
    if (by_unit && device_.is_cpu() && bridge::sources_of_thread == nullptr)
      (heard_by_ = &bridge::CountingAllocatorV2::install())->add(*this);
  }
  bool is_open() const { return is_open_; }
  /// After a step, or an exception in it.
  void close() noexcept {
    if (!std::exchange(is_open_, false)) return;
    bridge::place_source = outer_;
    if (auto* allocator = std::exchange(heard_by_, nullptr)) allocator->remove(*this);
  }
  /// After `close`. Allocates nothing of its own.
  std::shared_ptr<MemoryReport> finish(const std::optional<std::int64_t>& cleaned_up) {
    mark();
    MemoryReport& r = *report_;
    if (heard_.peak >= r.peak && heard_.peak > 0)
      r.peak = heard_.peak, r.peak_phase = heard_.phase, r.peak_unit = heard_.unit;
    r.peak += uncounted_, r.after = counter_.now() + uncounted_, r.cleaned_up = cleaned_up;
    for (std::int64_t& peak : r.phase_peaks) peak += peak > 0 ? uncounted_ : 0;
    for (std::size_t u = 0; u < r.units.size(); ++u) {
      if (u < activations_.bytes().size()) r.units[u].activations = activations_.bytes()[u];
      for (std::int64_t* peak : {&r.units[u].forward_peak, &r.units[u].backward_peak})
        *peak += *peak > 0 ? uncounted_ : 0;
    }
    return std::move(report_);
  }

  /// RAII: a part of the step. Its activations are known if it does not throw.
  class PhaseScope {
   public:
    PhaseScope(MemoryMeter& meter, Phase phase) : meter_(meter) {
      meter_.mark();
      meter_.phase_ = phase;
      if (phase == Phase::Forward) meter_.begin_forward();
    }
    ~PhaseScope() {
      meter_.mark();
      if (meter_.follows_units() && std::uncaught_exceptions() == exceptions_)
        meter_.activations_.end_forward(meter_.without_gathered());
    }
    PhaseScope(const PhaseScope&) = delete;
    PhaseScope& operator=(const PhaseScope&) = delete;

   private:
    MemoryMeter& meter_;
    int exceptions_ = std::uncaught_exceptions();
  };
  /// RAII: the forward of a unit.
  class UnitScope {
   public:
    UnitScope(MemoryMeter& meter, const Unit& unit) : meter_(meter) { meter.begin_unit(unit); }
    ~UnitScope() { meter_.end_unit(); }
    UnitScope(const UnitScope&) = delete;
    UnitScope& operator=(const UnitScope&) = delete;

   private:
    MemoryMeter& meter_;
  };
  bool follows_units() const { return is_open_ && by_unit_ && phase_ == Phase::Forward; }

  /// Tells those that record allocations which are parameters and gradients.
  void describe(const Masters& masters, const StepGradients& gradients) noexcept {
    if (heard_by_ == nullptr) return;
    for (std::size_t i = 0; i < masters.values.size(); ++i)
      describe(masters.values[i], "parameter", unit_of(masters, i));
    for (std::size_t k = 0; k < gradients.values.size(); ++k)
      describe(elements_of(gradients.values[k]), "gradient",
               unit_of(masters, gradients.indices[k]));
  }

  bridge::MemoryPlace place() const noexcept override {
    return {phase_name(phase_), table_.units()[present_unit()].name};
  }

 private:
  struct Heard {
    std::int64_t peak = 0;
    Phase phase = Phase::Data;
    std::size_t unit = 0;
  };

  void allocated(const void*, int64_t, int64_t in_use) noexcept override {
    const bool is_of_step = bridge::place_source == this;  // else another thread allocates
    const std::size_t unit = is_of_step ? present_unit() : 0;
    if (in_use > heard_.peak) heard_ = {in_use, phase_of(is_of_step), unit};
    if (is_of_step) raise(unit, in_use);
  }
  void freed(const void*, int64_t) noexcept override {}
  void refused(int64_t, int64_t) noexcept override {}
  void described(const void*, const char*, const char*) noexcept override {}
  /// Another thread may not read in which phase this one is.
  Phase phase_of(bool is_of_step) const { return is_of_step ? phase_ : heard_.phase; }

  /// Of a step that is not followed by unit there are no calls.
  std::size_t present_unit() const noexcept { return nodes_.unit(phase_); }
  void raise(std::size_t unit, std::int64_t in_use) noexcept {
    if (!by_unit_ || (phase_ != Phase::Forward && phase_ != Phase::Backward)) return;
    UnitPeak& of_unit = report_->units[unit];
    auto& peak = phase_ == Phase::Forward ? of_unit.forward_peak : of_unit.backward_peak;
    peak = std::max(peak, in_use);
  }
  /// What was in use at most since the last mark belongs to the present phase.
  void mark() {
    const std::int64_t peak = counter_.peak();
    counter_.reset_peak();
    auto& of_phase = report_->phase_peaks[static_cast<std::size_t>(phase_)];
    of_phase = std::max(of_phase, peak);
    const std::size_t unit = phase_ == Phase::Forward ? present_unit() : 0;
    if (phase_ == Phase::Forward && heard_by_ == nullptr) raise(unit, peak);
    if (peak > report_->peak)
      report_->peak = peak, report_->peak_phase = phase_, report_->peak_unit = unit;
  }
  std::int64_t without_gathered() const { return counter_.now() - (gathered_ ? gathered_() : 0); }
  void begin_forward() {
    nodes_.begin_forward();
    if (by_unit_) activations_.begin_forward(without_gathered(), table_.units().size());
  }
  void begin_unit(const Unit& unit) {
    mark();
    nodes_.begin(unit.index, activations_.begin_unit(without_gathered()));
    raise(unit.index, counter_.now());
  }
  void end_unit() {
    mark();
    const auto last = nodes_.end();
    activations_.end_unit(last->unit, without_gathered(), last->bytes);
  }

  std::size_t unit_of(const Masters& masters, std::size_t i) const noexcept {
    return masters.slices.empty() ? 0 : masters.slices[i].unit;
  }
  void describe(const at::Tensor& t, const char* kind, std::size_t unit) noexcept {
    if (!t.defined() || !t.has_storage() || is_away(t) || t.is_meta()) return;
    const void* data = t.storage().data();
    const char* name = table_.units()[unit].name.c_str();
    heard_by_->tell([&](auto& observer) { observer.described(data, kind, name); });
  }

  c10::Device device_;
  const UnitTable& table_;
  std::int64_t uncounted_;
  bridge::MemoryCounter counter_{device_};
  std::shared_ptr<MemoryReport> report_;
  std::function<std::int64_t()> gathered_;
  UnitActivations activations_;
  UnitNodes nodes_;
  Heard heard_;
  Phase phase_ = Phase::Data;
  bool by_unit_ = false, is_open_ = false;
  const bridge::MemoryPlaceSource* outer_ = nullptr;
  bridge::CountingAllocatorV2* heard_by_ = nullptr;
};

}  // namespace ikebana::detail
