#pragma once
#include <ikebana/advice/summary.hpp>
#include <ikebana/detail/form.hpp>
#include <map>

namespace ikebana::detail {

IKEBANA_INLINE void MemoryMarks::mark(Phase phase, std::size_t unit) {
  intervals.push_back({phase, unit, counter.peak() - before});
  counter.reset_peak();
}

IKEBANA_INLINE std::vector<std::int64_t> gradient_bytes(const Masters& masters,
                                                        const StepGradients& gradients,
                                                        std::size_t units) {
  std::vector<std::int64_t> bytes(units);
  StorageBytes counted;
  std::map<const c10::StorageImpl*, std::int64_t> left;
  for (std::size_t k = 0; k < gradients.values.size(); ++k) {
    const at::Tensor t = elements_of(gradients.values[k]);
    std::int64_t& of_storage = left[t.storage().unsafeGetStorageImpl()];
    of_storage += counted.add(t);
    const std::int64_t own = std::min(of_storage, static_cast<std::int64_t>(t.nbytes()));
    bytes[masters.slices[gradients.indices[k]].unit] += own;
    of_storage -= own;
  }
  for (const auto& [storage, rest] : left) bytes[0] += rest;
  return bytes;
}

IKEBANA_INLINE void Summary::add(const std::vector<at::Tensor>& batch, const Report& report) {
  add_held(batch);
  add_step();
  add_offloaded(report);
  result_.between_steps = marks_.now() - counted_.add(report.outputs);
  result_.other = std::max<std::int64_t>(0, result_.between_steps - held());
  add_peak(0);
}

IKEBANA_INLINE void Summary::add_held(const std::vector<at::Tensor>& batch) {
  result_ = {};
  result_.device = trainer_.device.str();
  result_.rank = trainer_.rank, result_.ranks = trainer_.ranks;
  for (const Unit& unit : units_) result_.units.push_back({.name = unit.name});
  add_parameters();
  add_state();
  for (const at::Tensor& t : batch)
    if (t.device() == trainer_.device) result_.batch += counted_.add(t);
}

IKEBANA_INLINE std::int64_t Summary::held() const {
  const RecipeFacts& recipe = trainer_.recipe;
  const bool to_file = recipe.offloads_masters && recipe.offloads_to_file;
  const bool stay = !recipe.offloads_masters || (!to_file && trainer_.device.is_cpu());
  return (stay ? result_.parameters + result_.optimizer_state : 0) + kept_ + result_.buffers +
         (to_file ? 0 : result_.averages) + result_.batch;
}

IKEBANA_INLINE void Summary::add_peak(std::int64_t held) {
  for (const MemoryInterval& interval : marks_.intervals)
    if (interval.peak + held > result_.peak) {
      result_.peak = interval.peak + held, result_.peak_phase = interval.phase;
      result_.peak_unit = units_[interval.unit].name;
    }
}

IKEBANA_INLINE void Summary::add_step() {
  result_.gathered = std::max(kept_, marks_.gathered);
  for (std::size_t u = 0; u < units_.size(); ++u) {
    UnitMemory& unit = result_.units[u];
    const std::int64_t left =
        marks_.activations.bytes()[u];  // below 0 if the unit moved activations of others
    unit.activations = std::max<std::int64_t>(left, 0), result_.activations += left;
    unit.gradients = marks_.gradients[u], result_.gradients += unit.gradients;
  }
}

IKEBANA_INLINE void Summary::add_offloaded(const Report& report) {
  if (!report.offloaded) return;
  result_.offloaded = report.offloaded->peak_stored;
  if (trainer_.recipe.offloads_masters)
    result_.offloaded += result_.parameters + result_.gradients + result_.optimizer_state;
  result_.is_offloaded_to_disk = trainer_.recipe.offloads_to_file;
}

IKEBANA_INLINE void Summary::add_parameters() {
  const Masters& masters = trainer_.masters;
  for (std::size_t i = 0; i < masters.values.size(); ++i) {
    const std::int64_t bytes = counted_.add(masters.values[i]);
    const std::vector<std::int64_t>& whole = masters.slices[i].sizes;
    result_.parameters += bytes;
    result_.units[masters.slices[i].unit].parameters += bytes;
    result_.elements +=
        c10::multiply_integers(whole.empty() ? masters.values[i].sizes() : at::IntArrayRef(whole));
  }
  for (const Unit& unit : units_)
    for (const at::Tensor& p : unit.parameters) kept_ += counted_.add(p);
  for (const at::Tensor& buffer : units_[0].module->buffers())
    result_.buffers += counted_.add(buffer);
}

IKEBANA_INLINE void Summary::add_state() {
  StateDict state;
  Archive archive(state, Archive::Mode::Save);
  trainer_.state(archive);
  const std::string optimizer = "ikebana." + trainer_.optimizer + ".";
  for (const auto& [name, t] : state) {
    if (name.starts_with(optimizer)) {
      const std::int64_t bytes = counted_.add(t);
      result_.optimizer_state += bytes;
      result_.units[unit_of(name.substr(optimizer.size()))].optimizer_state += bytes;
    } else if (!name.starts_with("ikebana.") || name.starts_with("ikebana.trained.")) {
      result_.averages += counted_.add(t);
    }
  }
}

IKEBANA_INLINE std::size_t Summary::unit_of(const std::string& parameter) const {
  std::size_t unit = 0;
  for (const Unit& one : units_)
    if (!one.is_root() && parameter.starts_with(one.name + ".") &&
        one.name.size() >= units_[unit].name.size())
      unit = one.index;
  return unit;
}

}  // namespace ikebana::detail
