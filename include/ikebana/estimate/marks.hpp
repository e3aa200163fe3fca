#pragma once
// Reads the memory in use at every point of a step: between its phases, and before and after each
// unit's forward and backward.
#include <ikebana/bridge/memory.hpp>
#include <ikebana/detail/away.hpp>
#include <ikebana/estimate/result.hpp>
#include <ikebana/hooks.hpp>
#include <functional>
#include <set>

namespace ikebana {

namespace detail {

/// The peak from one mark to the next, and what was in use there.
struct MemoryInterval {
  Phase phase;
  std::size_t unit;  // the root: no unit computes
  std::int64_t peak;
};

/// What the marks of one step say.
struct MemoryMarks {
  /// `counter_of(device)` counts the memory of the device that the model turns out to be on. That of
  /// a CPU is made at once, to count what the maker allocates.
  using CounterOf = std::function<bridge::MemoryCounter(c10::Device)>;
  explicit MemoryMarks(CounterOf of)
      : counter_of(std::move(of)), counter(counter_of(at::kCPU)), before(counter.now()) {}

  CounterOf counter_of;
  bridge::MemoryCounter counter;
  std::int64_t before;  // in use, of others
  std::vector<MemoryInterval> intervals = {};
  std::vector<std::int64_t> activations = {};  // of each unit, its inner units included
  std::int64_t forward_begin = 0, activations_of_all = 0, gathered = 0;
  Estimate result = {};

  std::int64_t now() const { return counter.now() - before; }
  void mark(Phase phase, std::size_t unit) {
    intervals.push_back({phase, unit, counter.peak() - before});
    counter.reset_peak();
  }
};

/// The bytes of storages, each counted once.
class StorageBytes {
 public:
  /// Of a tensor's storage; 0 where it was counted, or has no memory.
  std::int64_t add(const at::Tensor& t) {
    if (!t.defined() || !t.has_storage() || is_away(t) || t.is_meta()) return 0;
    if (!seen_.insert(t.storage().unsafeGetStorageImpl()).second) return 0;
    return static_cast<std::int64_t>(t.storage().nbytes());
  }
  bool has(const at::Tensor& t) const {
    return t.has_storage() && seen_.count(t.storage().unsafeGetStorageImpl()) > 0;
  }

 private:
  std::set<const c10::StorageImpl*> seen_;
};

/// The policy with which `estimate` observes a recipe.
struct MarkMemory {
  using axis = ikebana::axis::observe;
  MemoryMarks* marks = nullptr;
};

}  // namespace detail

template <>
struct Mechanism<detail::MarkMemory> : ObserveHooks {
  static constexpr bool listens_to_backward = true;
  detail::MarkMemory values;
  explicit Mechanism(detail::MarkMemory v) : values(v) {}

  void attach(c10::Device device, const UnitTable& table) {
    table_ = &table;
    if (!device.is_cpu()) marks().counter = marks().counter_of(device), marks().before = 0;
    marks().activations.assign(table.units().size(), 0);
  }
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core& core, const Batch& batch, Next&& next) {
    moves_parameters_ = std::decay_t<decltype(core.mechanisms)>::moves_parameters;
    marks().intervals.clear();
    marks().gathered = marks().activations_of_all = 0;
    marks().counter.reset_peak();
    auto report = next();
    summarize(core, batch);
    return report;
  }
  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    struct End {
      Mechanism* own;
      Phase phase;
      ~End() { own->end_phase(phase); }
    };
    phase_ = phase, unit_ = 0;
    marks().mark(phase, 0);
    if (phase == Phase::Forward) marks().forward_begin = marks().now();
    const End end{this, phase};
    return next();
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    struct End {
      Mechanism* own;
      const Unit* unit;
      std::size_t outer;
      std::int64_t before;
      ~End() { own->end_unit(*unit, outer, before); }
    };
    enter();
    const End end{this, &unit, std::exchange(unit_, unit.index), marks().now()};
    return next(std::forward<Args>(args)...);
  }
  void before_unit_backward(const Unit& unit) { enter(), unit_ = unit.index; }
  void after_unit_backward(const Unit& unit) {
    enter();
    if (unit_ == unit.index) unit_ = 0;
  }
  void begin(const Masters& masters) { masters_ = &masters; }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate&) {
    detail::StorageBytes counted;
    gradients_.assign(table_->units().size(), 0);
    for (std::size_t k = 0; k < gradients.values.size(); ++k)
      gradients_[masters.slices[gradients.indices[k]].unit] +=
          counted.add(elements_of(gradients.values[k]));
  }

 private:
  detail::MemoryMarks& marks() { return *values.marks; }

  void enter() {
    marks().mark(phase_, unit_);
    if (!moves_parameters_) return;
    std::int64_t here = 0;
    detail::StorageBytes counted;
    for (const at::Tensor& master : masters_->values) counted.add(master);
    for (const Unit& unit : table_->units())
      for (const at::Tensor& p : unit.parameters) here += counted.add(p);
    marks().gathered = std::max(marks().gathered, here);
  }
  void end_unit(const Unit& unit, std::size_t outer, std::int64_t before) {
    enter();
    unit_ = outer;
    marks().activations[unit.index] =
        std::max(marks().activations[unit.index], marks().now() - before);
  }
  void end_phase(Phase phase) {
    marks().mark(phase, unit_);
    if (phase == Phase::Forward)
      marks().activations_of_all =
          std::max(marks().activations_of_all, marks().now() - marks().forward_begin);
  }
  /// `name` is `.block0.weight.exp_avg`.
  void add_state(const std::string& name, const at::Tensor& t, detail::StorageBytes& counted) {
    const std::int64_t bytes = counted.add(t);
    marks().result.optimizer_state += bytes;
    std::size_t unit = 0;
    for (const Unit& one : table_->units())
      if (!one.is_root() && name.find("." + one.name + ".") == 0 &&
          one.name.size() >= table_->units()[unit].name.size())
        unit = one.index;
    marks().result.units[unit].optimizer_state += bytes;
  }
  template <class Core, class Batch>
  void summarize(Core& core, const Batch& batch);

  const UnitTable* table_ = nullptr;
  const Masters* masters_ = nullptr;
  Phase phase_ = Phase::Data;
  std::size_t unit_ = 0;
  std::vector<std::int64_t> gradients_;  // of each unit
  bool moves_parameters_ = false;
};

/// After a step: what is there between steps, by kind.
template <class Core, class Batch>
void Mechanism<detail::MarkMemory>::summarize(Core& core, const Batch& batch) {
  const std::vector<Unit>& all = core.units.units();
  Estimate& result = marks().result;
  detail::StorageBytes counted;
  result.units.assign(all.size(), {});
  result.parameters = result.buffers = result.optimizer_state = result.averages = result.batch = 0;
  result.gradients = result.elements = 0;
  result.device = core.device.str();
  for (std::size_t u = 0; u < all.size(); ++u) {
    result.units[u].name = all[u].name;
    result.units[u].activations = marks().activations[u];
    result.units[u].gradients = gradients_[u], result.gradients += gradients_[u];
  }
  const Masters& masters = core.parameters.masters();
  for (std::size_t i = 0; i < masters.values.size(); ++i) {
    const std::int64_t bytes = counted.add(masters.values[i]);
    result.parameters += bytes;
    result.elements += c10::multiply_integers(masters.slices[i].sizes.empty()
                                                  ? masters.values[i].sizes()
                                                  : at::IntArrayRef(masters.slices[i].sizes));
    result.units[masters.slices[i].unit].parameters += bytes;
  }
  std::int64_t kept = 0;  // copies that stay between steps
  for (const Unit& unit : all)
    for (const at::Tensor& p : unit.parameters) kept += counted.add(p);
  for (const at::Tensor& buffer : all[0].module->buffers()) result.buffers += counted.add(buffer);
  StateDict state;
  Archive archive(state, Archive::Mode::Save);
  core.state(archive);
  const std::string optimizer =
      "ikebana." + detail::type_name<std::decay_t<decltype(core.mechanisms.optimizer.values)>>();
  for (const auto& [name, t] : state) {
    if (name.starts_with(optimizer)) add_state(name.substr(optimizer.size()), t, counted);
    else if (!name.starts_with("ikebana.") || name.starts_with("ikebana.trained."))
      result.averages += counted.add(t);
  }
  detail::for_each_tensor(batch, [&](const at::Tensor& t) {
    if (t.defined() && t.device() == core.device) result.batch += counted.add(t);
  });
  result.gathered = std::max(kept, marks().gathered);
  result.activations = marks().activations_of_all;
  result.between_steps = marks().now();
  result.other = std::max<std::int64_t>(
      0, result.between_steps - result.parameters - kept - result.buffers - result.optimizer_state -
             result.averages - result.batch);
  result.peak = 0;
  for (const detail::MemoryInterval& interval : marks().intervals)
    if (interval.peak > result.peak) {
      result.peak = interval.peak, result.peak_phase = interval.phase;
      result.peak_unit = all[interval.unit].name;
    }
}

}  // namespace ikebana
