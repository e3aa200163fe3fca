#pragma once
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/observe/memory_meter.hpp>
#include <ikebana/observe/module_memory.hpp>

namespace ikebana::detail {

IKEBANA_INLINE MemoryMeter::MemoryMeter(c10::Device device, const UnitTable& table,
                                        std::int64_t uncounted)
    : device_(device), table_(table), uncounted_(uncounted) {}
IKEBANA_INLINE MemoryMeter::~MemoryMeter() { close(); }

IKEBANA_INLINE void MemoryMeter::open(bool by_unit, std::function<std::int64_t()> gathered) {
  report_ = make_shared_apart<MemoryReport>();
  report_->device = device_.str();
  by_unit_ = by_unit, gathered_ = std::move(gathered);
  activations_.begin_step();
  nodes_.begin_forward();
  phase_ = Phase::Data, heard_ = {};
  counter_.reset_peak();
  report_->before = counter_.now() + uncounted_;
  outer_ = std::exchange(bridge::place_source, this), is_open_ = true;
  if (by_unit) follow_units();
}

IKEBANA_INLINE void MemoryMeter::follow_units() {
  const bool hears = device_.is_cpu() && bridge::sources_of_thread == nullptr;
  if (hears && table_.units().size() == 1) {
    if (!modules_) modules_ = std::make_shared<MeasuredModules>(table_, /*by_module=*/true);
    by_module_ = std::make_shared<ModuleMemory>(*modules_, phase_);
    module_activations_.clear();
  }
  const std::size_t units = by_module_ ? modules_->size() : table_.units().size();
  for (std::size_t u = 0; u < units; ++u) report_->units.push_back({name_of(u)});
  if (hears) (heard_by_ = &bridge::CountingAllocatorV2::install())->add(*this);
}

IKEBANA_INLINE std::size_t MemoryMeter::present_unit() const noexcept {
  return by_module_ ? by_module_->present() : nodes_.unit(phase_);
}

IKEBANA_INLINE const std::string& MemoryMeter::name_of(std::size_t unit) const noexcept {
  return by_module_ ? modules_->part(unit).name : table_.units()[unit].name;
}

IKEBANA_INLINE void MemoryMeter::close() noexcept {
  if (!std::exchange(is_open_, false)) return;
  bridge::place_source = outer_;
  by_module_.reset();
  if (auto* allocator = std::exchange(heard_by_, nullptr)) allocator->remove(*this);
}

IKEBANA_INLINE std::shared_ptr<MemoryReport> MemoryMeter::finish(
    const std::optional<std::int64_t>& cleaned_up) {
  mark();
  MemoryReport& r = *report_;
  if (heard_.peak >= r.peak && heard_.peak > 0)
    r.peak = heard_.peak, r.peak_phase = heard_.phase, r.peak_unit = heard_.unit;
  r.peak += uncounted_, r.after = counter_.now() + uncounted_, r.cleaned_up = cleaned_up;
  for (std::int64_t& peak : r.phase_peaks) peak += peak > 0 ? uncounted_ : 0;
  for (std::size_t u = 0; u < r.units.size(); ++u) {
    if (u < activations_.bytes().size()) r.units[u].activations = activations_.bytes()[u];
    if (u > 0 && u < module_activations_.size()) {
      r.units[u].activations = module_activations_[u];
      r.units[0].activations -= module_activations_[u];
    }
    for (std::int64_t* peak : {&r.units[u].forward_peak, &r.units[u].backward_peak})
      *peak += *peak > 0 ? uncounted_ : 0;
  }
  return std::move(report_);
}

IKEBANA_INLINE MemoryMeter::PhaseScope::PhaseScope(MemoryMeter& meter, Phase phase)
    : meter_(meter) {
  meter_.mark();
  meter_.phase_ = phase;
  if (phase == Phase::Forward) meter_.begin_forward();
}

IKEBANA_INLINE MemoryMeter::PhaseScope::~PhaseScope() {
  meter_.mark();
  if (meter_.follows_units() && std::uncaught_exceptions() == exceptions_) meter_.end_forward();
}

IKEBANA_INLINE void MemoryMeter::end_forward() {
  activations_.end_forward(without_gathered());
  if (!by_module_ || !module_activations_.empty()) return;
  try {
    module_activations_ = by_module_->end_forward();
  } catch (const std::bad_alloc&) {  // then they are the model's
  }
}

IKEBANA_INLINE void MemoryMeter::describe(const Masters& masters,
                                          const StepGradients& gradients) noexcept {
  if (heard_by_ == nullptr) return;
  for (std::size_t i = 0; i < masters.values.size(); ++i)
    describe(masters.values[i], "parameter", unit_of(masters, i));
  for (std::size_t k = 0; k < gradients.values.size(); ++k)
    describe(elements_of(gradients.values[k]), "gradient", unit_of(masters, gradients.indices[k]));
}

IKEBANA_INLINE bridge::MemoryPlace MemoryMeter::place() const noexcept {
  return {phase_name(phase_), name_of(present_unit())};
}

IKEBANA_INLINE void MemoryMeter::allocated(const void*, int64_t, int64_t in_use) noexcept {
  const bool is_of_step = bridge::place_source == this;  // else another thread allocates
  const std::size_t unit = is_of_step ? present_unit() : 0;
  if (in_use > heard_.peak) heard_ = {in_use, phase_of(is_of_step), unit};
  if (is_of_step) raise(unit, in_use);
}

IKEBANA_INLINE void MemoryMeter::raise(std::size_t unit, std::int64_t in_use) noexcept {
  if (!by_unit_ || (phase_ != Phase::Forward && phase_ != Phase::Backward)) return;
  UnitPeak& of_unit = report_->units[unit];
  auto& peak = phase_ == Phase::Forward ? of_unit.forward_peak : of_unit.backward_peak;
  peak = std::max(peak, in_use);
}

IKEBANA_INLINE void MemoryMeter::mark() {
  const std::int64_t peak = counter_.peak();
  counter_.reset_peak();
  auto& of_phase = report_->phase_peaks[static_cast<std::size_t>(phase_)];
  of_phase = std::max(of_phase, peak);
  const std::size_t unit = phase_ == Phase::Forward ? present_unit() : 0;
  if (phase_ == Phase::Forward && heard_by_ == nullptr) raise(unit, peak);
  if (peak > report_->peak)
    report_->peak = peak, report_->peak_phase = phase_, report_->peak_unit = unit;
}

IKEBANA_INLINE void MemoryMeter::begin_forward() {
  nodes_.begin_forward();
  if (by_unit_) activations_.begin_forward(without_gathered(), table_.units().size());
}

IKEBANA_INLINE void MemoryMeter::begin_unit(const Unit& unit) {
  mark();
  nodes_.begin(unit.index, activations_.begin_unit(without_gathered()));
  raise(unit.index, counter_.now());
}

IKEBANA_INLINE void MemoryMeter::end_unit() {
  mark();
  const auto last = nodes_.end();
  activations_.end_unit(last->unit, without_gathered(), last->bytes);
}

IKEBANA_INLINE std::size_t MemoryMeter::unit_of(const Masters& masters,
                                                std::size_t i) const noexcept {
  return masters.slices.empty() ? 0 : masters.slices[i].unit;
}

IKEBANA_INLINE void MemoryMeter::describe(const at::Tensor& t, const char* kind,
                                          std::size_t unit) noexcept {
  if (!t.defined() || !t.has_storage() || is_away(t) || t.is_meta()) return;
  const void* data = t.storage().data();
  const char* name = table_.units()[unit].name.c_str();
  heard_by_->tell([&](auto& observer) { observer.described(data, kind, name); });
}

}  // namespace ikebana::detail
