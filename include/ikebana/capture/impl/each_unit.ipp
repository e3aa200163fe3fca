#pragma once
#include <ikebana/bridge/counting_allocator.hpp>
#include <ikebana/bridge/saved_tensors.hpp>
#include <ikebana/capture/each_unit.hpp>
#include <ikebana/detail/form.hpp>
#include <unordered_set>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Capture<EachUnit>>::check() const {
  if (values.tapes < 1)
    throw BadValue("Capture<EachUnit>: tapes is " + std::to_string(values.tapes) +
                   ". Write of how many forms of arguments each unit keeps tapes, 1 or more.");
}

IKEBANA_INLINE void Mechanism<Capture<EachUnit>>::attach(c10::Device device,
                                                         const UnitTable& table) {
  if (!device.is_cpu())
    throw BadValue("Capture<EachUnit>: " + device.str() +
                   " would need graphs of parts of a step, which there are not yet. Write "
                   "Capture<WholeStep>, or leave Capture out.");
  bridge::CountingAllocatorV2::install();
  detail::compute_names(*table.units()[0].module);
  units_.resize(table.units().size());
  // By the module, since one may stand within several units, and has a name in one of them.
  std::unordered_set<const torch::nn::Module*> modules;
  for (const Unit& unit : table.units()) modules.insert(unit.module.get());
  for (const Unit& unit : table.units()) {
    const auto inner = unit.module->modules(/*include_self=*/false);
    has_inner_.push_back(std::any_of(inner.begin(), inner.end(), [&](const auto& module) {
      return modules.count(module.get()) != 0;
    }));
  }
}

IKEBANA_INLINE std::int64_t Mechanism<Capture<EachUnit>>::key_of(const Unit& unit,
                                                                 const std::type_info& type) const {
  std::size_t key = c10::hash_combine(unit.index, type.hash_code());
  key = c10::hash_combine(key, unit.module->is_training() ? 1 : 0);
  const bool autocasts = at::autocast::is_autocast_enabled(at::kCPU);
  key = c10::hash_combine(
      key,
      autocasts ? 2 + static_cast<std::size_t>(at::autocast::get_autocast_dtype(at::kCPU)) : 1);
  return static_cast<std::int64_t>(key);
}

IKEBANA_INLINE bool Mechanism<Capture<EachUnit>>::may_replay() {
  if (!is_active_ || !at::GradMode::is_enabled() || detail::recomputing() ||
      std::this_thread::get_id() != thread_)
    return false;
  auto* engine = bridge::SavedTensorEngineV2::installed();
  const bool has_hooks = engine != nullptr && engine->hooks_of_innermost() != nullptr;
  if (has_hooks) ++usual_calls_;
  return !has_hooks;
}

IKEBANA_INLINE detail::UnitTape* Mechanism<Capture<EachUnit>>::tape_of(const Unit& unit) {
  detail::UnitTapes& all = units_[unit.index];
  if (is_innermost_ && has_inner_[unit.index]) return nullptr;
  if (!throws())  // once for a unit, and not for each of its forms
    for (const auto& tape : all.tapes.all())
      if (tape->is_refused() && all.problems.empty()) all.problems = tape->problems();
  if (!all.problems.empty()) return ++usual_calls_, nullptr;
  if (all.tensors == nullptr || !all.guard.is_unchanged()) {
    all.tapes.clear(), all.calls = 0, all.tensors.reset();
    all.guard.take(*unit.module, *sizes_, moves_);
    all.tensors = std::make_shared<detail::UnitTensors>(*unit.module);
  }
  if (all.calls < settling_calls) return nullptr;
  detail::UnitTape* tape = all.tapes.find(form_);
  if (tape == nullptr)
    tape = &all.tapes.add(
        std::make_shared<detail::UnitTape>(form_, unit.name, all.tensors, buffers_), values.tapes);
  tape->end_if_abandoned();
  if (!tape->problems().empty()) {
    if (throws() && tape->is_refused()) tape->refuse(tape->problems(), true);
    ++usual_calls_;
  }
  return tape->is_as_usual() || tape->is_open() ? nullptr : tape;
}

IKEBANA_INLINE void Mechanism<Capture<EachUnit>>::end_usual_call(const Unit& unit) {
  detail::UnitTapes& all = units_[unit.index];
  if (all.tensors == nullptr || all.calls >= settling_calls || !all.problems.empty()) return;
  const std::string name = all.guard.changed_module();
  if (name.empty()) return ++all.calls, void(all.changes = 0);
  if (++all.changes >= settling_calls) refuse(unit, detail::changed_module_text(name));
}

IKEBANA_INLINE void Mechanism<Capture<EachUnit>>::refuse_results(const Unit& unit) {
  if (!units_[unit.index].problems.empty()) return void(++usual_calls_);
  refuse(unit, unseen_results);
}

IKEBANA_INLINE void Mechanism<Capture<EachUnit>>::refuse(const Unit& unit,
                                                         const std::string& problem) {
  const std::string problems = "\n  " + problem;
  if (!throws()) units_[unit.index].problems = problems;
  detail::refuse_unit(unit.name, problems, throws());
}

IKEBANA_INLINE void Mechanism<Capture<EachUnit>>::note_changed_arguments(
    detail::Recorder& recorder) {
  recorder.add_problem(
      "the unit changes an argument of its caller's, which a replay would not do. Return what "
      "changes.");
}

IKEBANA_INLINE void Mechanism<Capture<EachUnit>>::note_changed_module(detail::Recorder& recorder,
                                                                      const Unit& unit) const {
  const std::string name = units_[unit.index].guard.changed_module();
  if (!name.empty()) recorder.add_problem(detail::changed_module_text(name));
}

IKEBANA_INLINE bool Mechanism<Capture<EachUnit>>::Changeable::operator==(
    const Changeable& other) const {
  return forms == other.forms &&
         std::equal(tensors.begin(), tensors.end(), other.tensors.begin(), other.tensors.end(),
                    [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); });
}

IKEBANA_INLINE std::string Mechanism<Capture<EachUnit>>::describe() const {
  return "tapes=" + std::to_string(values.tapes) +
         (values.on_refusal == OnRefusal::Eager ? ", on_refusal=Eager" : "");
}

IKEBANA_INLINE std::string Mechanism<Capture<EachUnit>>::text() const {
  std::string all;
  for (const detail::UnitTapes& unit : units_)
    for (const auto& tape : unit.tapes.all()) all += tape->text();
  return all.empty() ? "no unit was recorded yet\n" : all;
}

}  // namespace ikebana
