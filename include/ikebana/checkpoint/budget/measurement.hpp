#pragma once
// Measures a step under Checkpoint<Full>: the peak of each of its moments, and what its units would
// keep and take.
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/checkpoint/budget/plan.hpp>
#include <ikebana/checkpoint/frame/known_tensors.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/detail/torch.hpp>
#include <memory>
#include <optional>
#include <vector>

namespace ikebana::detail {

/// The storages of tensors. Does not keep their memory, but while the set exists no other storage
/// gets the address of one of them.
class StorageSet {
 public:
  /// Returns false if the storage is in the set already, or the tensor has no memory.
  bool add(const at::Tensor& t);
  template <class Tensors>
  void add_all(const Tensors& tensors) {
    for (const at::Tensor& t : tensors) add(t);
  }
  void add_all_of(const StorageSet& others);
  bool has(const at::Tensor& t) const;
  /// Returns the bytes of the storages that are not in `others`.
  std::int64_t bytes_beyond(const StorageSet& others) const;
  std::int64_t bytes() const { return bytes_beyond({}); }
  std::int64_t bytes_of(const c10::StorageImpl* storage) const;
  bool has(const c10::StorageImpl* storage) const;
  /// Returns true if something besides one tensor keeps one of the storages.
  bool any_is_shared() const;
  std::size_t size() const { return all_.size(); }

 private:
  struct One {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    std::int64_t bytes;
  };

  std::vector<One> all_;
};

/// The measurements of one recompute of a unit. Bytes are above the level at which it began.
struct Recomputed {
  bool is_complete = false;  ///< the rehearsals ended, so all but `rise` and `time` is known
  std::int64_t rise = 0, rise_selective = 0, rise_whole = 0;
  std::int64_t keep = 0, selective = 0, selective_unsaved = 0, result = 0;
  std::int64_t time = 0, time_rest = 0;  ///< nanoseconds
  std::int64_t time_watched = 0;         ///< with each operator intercepted
  std::int64_t time_kept = 0;            ///< the time of the operators that Selective keeps
  std::int64_t operators = 0;
  std::int64_t products = 0;  ///< the number of products that Selective keeps
  StorageSet saved_inputs;    ///< the arguments that autograd saves
  bool keeps_result = false;  ///< autograd, or Selective, keeps its result

  /// Adds the time of one of several runs, of which the fastest counts.
  void add_time(std::int64_t one) { time = time == 0 ? one : std::min(time, one); }
};

/// The measurements of one unit over all microbatches of a step.
struct MeasuredUnit {
  UnitCosts costs;
  Recomputed sum;  // bytes: the largest; times: the sums
  bool has_backward = false, is_ordered = true, is_complete = true;
  int recomputes = 0;

  explicit MeasuredUnit(std::size_t unit);
  /// Adds a recompute. `begin` is the level at which the unit's forward began. `input` is what the
  /// unit before it returned, if nothing else keeps that.
  void add(const Recomputed& seen, std::int64_t begin, std::int64_t gathered,
           const StorageSet& input, bool joins);
  void add_times(const Recomputed& seen);
  UnitCosts result() const;
};

/// Gives units that do the same the lower quartile of their times: what disturbs the process makes
/// some times longer, and none shorter. The cost of intercepting an operator is measured over all
/// units, since it is less than the noise of one unit.
template <class Kind>
void set_times(Costs& all, const std::vector<MeasuredUnit>& units, const Kind& kind) {
  std::int64_t watching = 0, operators = 0;
  for (const MeasuredUnit& unit : units) {
    watching += unit.sum.time_watched - unit.sum.time;
    operators += unit.sum.operators;
  }
  watching = std::max<std::int64_t>(watching, 0);
  auto quartile = [&](std::size_t i, std::int64_t Recomputed::* time) {
    std::vector<std::int64_t> alike;
    for (std::size_t j = 0; j < units.size(); ++j)
      if (kind(units[j].costs.unit) == kind(units[i].costs.unit) &&
          all.units[j].keep == all.units[i].keep && all.units[j].result == all.units[i].result &&
          units[j].recomputes == units[i].recomputes)
        alike.push_back(units[j].sum.*time);
    const auto lower = alike.begin() + static_cast<std::ptrdiff_t>(alike.size() / 4);
    std::nth_element(alike.begin(), lower, alike.end());
    return *lower;
  };
  for (std::size_t i = 0; i < units.size(); ++i) {
    UnitCosts& unit = all.units[i];
    unit.time = quartile(i, &Recomputed::time);
    unit.time_rest = std::max<std::int64_t>(0, quartile(i, &Recomputed::time_rest));
    const std::int64_t kept = quartile(i, &Recomputed::time_kept);
    unit.time_selective = std::max<std::int64_t>(0, unit.time - kept);
    if (operators > 0)  // in forward and in the recompute
      unit.time_selective += 2 * (watching / operators) * units[i].sum.operators;
  }
}

/// Divides a step into moments: the forward of each unit and what follows it, its recompute, its
/// backward, and the rest. The peak of a moment is read when the next one begins. The moments of a
/// unit in several microbatches count as one, with the largest numbers.
class Measurement {
 public:
  /// `level` is the number of bytes in use when the step began.
  Measurement(c10::Device device, bridge::MemoryCounter counter, std::int64_t level);

  void begin_microbatch();
  /// An outermost unit is called. Returns its place among the units of the microbatch, or no value
  /// if an earlier microbatch called another unit there.
  template <class... Args>
  std::optional<std::size_t> begin_forward(std::size_t unit, const Args&... args) {
    const std::size_t place = calls_.size();
    deviates_ = deviates_ || (place < units_.size() &&
                              units_[place].costs.unit != static_cast<std::int64_t>(unit));
    if (deviates_) return {};
    if (place > 0) calls_.back().is_released = !calls_.back().is_held(/*by_frame=*/1);
    Call call;
    auto see = [&](const at::Tensor& t) {
      if (t.defined() && results_.has(t)) call.join(t);
      call.inputs.add(t);
    };
    (for_each_tensor(args, see), ...);
    calls_.push_back(std::move(call));
    if (place == units_.size()) units_.push_back(MeasuredUnit(unit));
    enter(Part::Forward, place);
    calls_.back().begin = now();
    return place;
  }
  /// The unit's parameters are gathered. `alive` exists as long as what its backward needs.
  void gathered(std::size_t place, const std::shared_ptr<const std::size_t>& alive);
  template <class Result>
  void end_forward(std::size_t place, const Result& result) {
    enter(Part::After, place);
    live_ = place + 1;
    results_.clear();
    for_each_tensor(result, [&](const at::Tensor& t) {
      if (t.defined()) results_.add(t);
    });
    if (calls_[place].alive.expired()) return;
    units_[place].has_backward = true;
    inputs_.add_all_of(calls_[place].inputs);
    max_inputs_ = std::max(max_inputs_, inputs_.bytes());
  }
  /// Returns false for a call of an earlier microbatch, whose graph was kept.
  bool is_present(const std::shared_ptr<const std::size_t>& alive) const;
  /// Notes that its first recompute of a backward begins.
  void begin_recompute(std::size_t place);
  void end_recompute(std::size_t place, const Recomputed& seen);
  /// The last backward has ended.
  void begin_update() { enter(Part::Update, 0); }
  /// The step has ended; `outputs` bytes are in its report. Nothing is measured from now on.
  void end_step(std::int64_t outputs) { end(now() - outputs); }
  /// A dry step has ended, in which all that an update allocates is in use. Returns how many bytes
  /// more a later step begins with, at most.
  std::int64_t end_dry_step(std::int64_t before_update);
  std::int64_t bytes_now() const { return now(); }
  void close() noexcept { is_open_ = false; }

  /// Returns the costs of all units, whose bytes are relative to the level when a step begins.
  /// `kind(unit)` is equal for units that do the same, whose times are then taken together.
  template <class Kind>
  Costs costs(const Kind& kind) const {
    Costs all;
    all.fixed = else_;
    for (const MeasuredUnit& unit : units_) all.units.push_back(unit.result());
    set_times(all, units_, kind);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool follows = i > 0 && all.units[i - 1].is_measured;
      if (!follows) all.units[i].joins = false;
      if (!follows || units_[i - 1].sum.keeps_result) all.units[i].unsaved = 0;
    }
    if (!all.units.empty())  // the loss may hold it until backward
      all.units.back().input = all.units.back().unsaved = 0;
    return all;
  }
  /// Returns the bytes that Full keeps from forward to backward: the inputs of the units.
  std::int64_t inputs() const { return max_inputs_; }
  bridge::MemoryCounter& counter() { return counter_; }
  c10::Device device() const { return device_; }

 private:
  enum class Part { Else, Forward, After, Recompute, Backward, Update };
  struct Call {
    bool is_released = false;
    StorageSet inputs, joined;
    /// The results of the unit before it that are arguments of this one.
    std::vector<c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>> tensors;
    std::weak_ptr<const std::size_t> alive;
    std::int64_t begin = 0, gathered = 0;

    void join(const at::Tensor& t);
    /// Returns true if more than these holders keep one of `tensors`.
    bool is_held(std::size_t holders) const;
  };
  std::int64_t now() const { return counter_.now() - level_; }
  /// Ends the measurement. `grown` is the number of bytes of state that a later step has from its
  /// beginning.
  void end(std::int64_t grown);
  /// The peak so far belongs to the present moment; a new one begins.
  void enter(Part part, std::size_t place);
  std::int64_t& peak_of(Part part, std::size_t place);
  /// Returns true in the backward of a microbatch that needs each unit once, the last one first.
  /// What a unit keeps is then released when the unit before it is recomputed.
  bool is_in_order(std::size_t place);
  c10::Device device_;
  bridge::MemoryCounter counter_;
  std::int64_t level_;
  std::vector<MeasuredUnit> units_;
  std::vector<Call> calls_;  // the calls of this microbatch
  KnownTensors results_;     // the results of the last unit
  StorageSet inputs_;        // the inputs of all units of this microbatch
  std::int64_t max_inputs_ = 0;
  std::int64_t else_ = 0, update_ = 0, ignored_ = 0;  // peaks
  Part part_ = Part::Else;
  std::size_t place_ = 0;
  std::size_t live_ = 0;  // units whose forward has ended, and whose backward has not begun
  bool deviates_ = false, in_order_ = false, is_open_ = true;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/budget/impl/measurement.ipp>
#endif
