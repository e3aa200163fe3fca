#pragma once
// What was read at the marks of a step, and what is there after it, by kind and by unit.
#include <ikebana/bridge/memory.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/estimate/result.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/gathered_bytes.hpp>
#include <ikebana/hooks/unit_activations.hpp>

namespace ikebana::detail {

/// The peak from one mark to the next, and what was in use there.
struct MemoryInterval {
  Phase phase;
  std::size_t unit;  // the root: no unit computes
  std::int64_t peak;
};

/// What the marks of one step say.
struct MemoryMarks {
  /// Of the CPU until the model turns out to be on another device: made at once, to count what the
  /// maker allocates.
  bridge::MemoryCounter counter{at::kCPU};
  std::int64_t before = counter.now();  // in use, of others
  std::vector<MemoryInterval> intervals = {};
  UnitActivations activations = {};
  std::vector<std::int64_t> gradients = {};  // of each unit, when they are complete
  std::int64_t gathered = 0;
  Estimate result = {};

  std::int64_t now() const { return counter.now() - before; }
  void mark(Phase phase, std::size_t unit);
};

/// The bytes of the gradients of each unit's parameters. Several may share a storage, as a bucket.
std::vector<std::int64_t> gradient_bytes(const Masters& masters, const StepGradients& gradients,
                                         std::size_t units);

/// Sorts what a trainer holds after a step into the kinds of an estimate.
template <class Core>
class Summary {
  using Offloads = std::decay_t<decltype(std::declval<Core&>().mechanisms.offload)>;

 public:
  /// Whether parameters, gradients and the optimizer's state lie elsewhere, and that is a disk.
  static constexpr bool offloads_masters = requires { Offloads::offloads_masters; };
  static constexpr bool offloads_to_file = requires(Offloads m) { m.values.folder; };

  Summary(MemoryMarks& marks, Core& core)
      : marks_(marks), core_(core), units_(core.units.units()), result_(marks.result) {}

  /// The outputs of the report may be dropped by its owner.
  template <class Batch>
  void add(const Batch& batch, const Report& report) {
    add_held(batch);
    add_step();
    add_offloaded(report);
    result_.between_steps = marks_.now() - counted_.add(report.outputs);
    result_.other = std::max<std::int64_t>(0, result_.between_steps - held());
    add_peak(0);
  }
  /// What is held between steps, by kind.
  template <class Batch>
  void add_held(const Batch& batch) {
    result_ = {};
    result_.device = core_.device.str();
    if constexpr (!Core::one_rank) {
      auto ranks = core_.ranks();
      result_.rank = ranks.data().rank(), result_.ranks = ranks.data().size();
    }
    for (const Unit& unit : units_) result_.units.push_back({.name = unit.name});
    add_parameters();
    add_state();
    for_each_tensor(batch, [&](const at::Tensor& t) {
      if (t.defined() && t.device() == core_.device) result_.batch += counted_.add(t);
    });
  }
  std::int64_t held() const {
    const bool stay = !offloads_masters || (!offloads_to_file && core_.device.is_cpu());
    const bool averages_stay = !offloads_masters || !offloads_to_file;
    return (stay ? result_.parameters + result_.optimizer_state : 0) + kept_ + result_.buffers +
           (averages_stay ? result_.averages : 0) + result_.batch;
  }
  /// The peak of the step, which counted all but `held` bytes.
  void add_peak(std::int64_t held) {
    for (const MemoryInterval& interval : marks_.intervals)
      if (interval.peak + held > result_.peak) {
        result_.peak = interval.peak + held, result_.peak_phase = interval.phase;
        result_.peak_unit = units_[interval.unit].name;
      }
  }
  /// What the step made, by unit.
  void add_step() {
    result_.gathered = std::max(kept_, marks_.gathered);
    for (std::size_t u = 0; u < units_.size(); ++u) {
      UnitMemory& unit = result_.units[u];
      const std::int64_t left = marks_.activations.bytes()[u];  // below 0: it moved those of others
      unit.activations = std::max<std::int64_t>(left, 0), result_.activations += left;
      unit.gradients = marks_.gradients[u], result_.gradients += unit.gradients;
    }
  }
  /// Of the report of a step, what lies elsewhere. After `add_step`.
  void add_offloaded(const Report& report) {
    if (!report.offloaded) return;
    result_.offloaded = report.offloaded->peak_stored;
    if (offloads_masters)
      result_.offloaded += result_.parameters + result_.gradients + result_.optimizer_state;
    result_.is_offloaded_to_disk = offloads_to_file;
  }

 private:
  void add_parameters() {
    const Masters& masters = core_.parameters.masters();
    for (std::size_t i = 0; i < masters.values.size(); ++i) {
      const std::int64_t bytes = counted_.add(masters.values[i]);
      const std::vector<std::int64_t>& whole = masters.slices[i].sizes;
      result_.parameters += bytes;
      result_.units[masters.slices[i].unit].parameters += bytes;
      result_.elements += c10::multiply_integers(whole.empty() ? masters.values[i].sizes()
                                                               : at::IntArrayRef(whole));
    }
    for (const Unit& unit : units_)
      for (const at::Tensor& p : unit.parameters) kept_ += counted_.add(p);
    for (const at::Tensor& buffer : units_[0].module->buffers())
      result_.buffers += counted_.add(buffer);
  }
  /// What a saved state lists, under its names: `ikebana.AdamW.block0.weight.exp_avg`. An average
  /// has the name of what is averaged.
  void add_state() {
    StateDict state;
    Archive archive(state, Archive::Mode::Save);
    core_.state(archive);
    const std::string optimizer =
        "ikebana." + type_name<std::decay_t<decltype(core_.mechanisms.optimizer.values)>>() + ".";
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
  std::size_t unit_of(const std::string& parameter) const {
    std::size_t unit = 0;
    for (const Unit& one : units_)
      if (!one.is_root() && parameter.starts_with(one.name + ".") &&
          one.name.size() >= units_[unit].name.size())
        unit = one.index;
    return unit;
  }

  MemoryMarks& marks_;
  Core& core_;
  const std::vector<Unit>& units_;
  Estimate& result_;
  StorageBytes counted_;
  std::int64_t kept_ = 0;  // copies that stay between steps
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/estimate/impl/summary.ipp>
#endif
