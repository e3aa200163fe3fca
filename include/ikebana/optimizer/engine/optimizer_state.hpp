#pragma once
// Defines the tensors of an optimizer's state, which are made at the first gradient, stored where a
// policy places them, saved and loaded, and the windows in which an update uses them.
#include <ikebana/optimizer/engine/bucket.hpp>
#include <utility>

namespace ikebana::detail {

/// While it exists, the window of a bucket is open, if the bucket has one.
class StateWindow {
 public:
  StateWindow(StateStorage* storage, const MasterBucket& bucket) noexcept;
  ~StateWindow();
  StateWindow(const StateWindow&) = delete;
  StateWindow& operator=(const StateWindow&) = delete;

 private:
  StateStorage* storage_;
  const MasterBucket& bucket_;
};

/// Puts back what an update of the bucket changed, if that was copied.
void undo(MasterBucket& bucket, StateStorage* storage) noexcept;

/// Returns true if a loaded state has tensors of that slot for one of these masters. Other masters
/// do not count, because under InBackward each parameter has its own optimizer.
bool has_slot(const Archive& archive, const Masters& masters, const std::string& slot);

/// State by slot and master. An `operand` is the tensor with which the update of a master computes:
/// state is made like it.
class OptimizerState {
 public:
  explicit OptimizerState(std::vector<Slot> all, std::optional<std::size_t> used = {});

  void begin(const Masters& masters);
  /// Asks the storage for the space of the state of these masters.
  void reserve(c10::function_ref<bool(std::size_t)> is_updated,
               c10::function_ref<at::Tensor(std::size_t)> operand) const;
  StateStorage* storage() const { return storage_; }
  /// Returns what `StateStorage::window_bytes` returns.
  std::int64_t window_bytes() const;
  /// Returns the number of slots in use.
  std::size_t slots_in_use() const { return tensors_.size(); }
  /// Uses slots up to `count`. Masters for which `has_state(i)` is true get their tensors.
  void add_slots(std::size_t count, c10::function_ref<bool(std::size_t)> has_state,
                 c10::function_ref<at::Tensor(std::size_t)> operand);
  /// Uses only the first `count` slots from now on.
  void drop_slots(std::size_t count) noexcept;
  /// Makes the tensors of a master.
  void make(std::size_t master, const at::Tensor& operand);
  void forget(std::size_t master) noexcept;
  std::int64_t bytes(std::size_t master) const;
  /// Appends the tensors of a master to its bucket, and to the bucket's window if there are
  /// windows.
  void add_to(MasterBucket& bucket, std::size_t master, bool has_windows) const;
  /// True if the state of parameter `j` of a bucket fits its operand.
  bool matches(const Bucket& bucket, std::size_t j, const at::Tensor& operand) const;
  /// Returns the slice of the whole parameter that a master is.
  Slice slice(std::size_t master, const at::Tensor& operand) const;
  /// Returns the part of the whole parameter's state that `state` is, which is a slot's tensor of a
  /// master with the slice `of_master`. A rank has one of three parts: the rows of its masters, all
  /// rows, with equal values on all ranks (Adafactor's means over columns), or a range of blocks,
  /// whose first and last block its neighbours may have as well, with equal values (AdamW8bit's
  /// scales).
  Slice slice_of(std::size_t slot, const Slice& of_master, const at::Tensor& state) const;
  /// Saves or loads the first `count` slots of a master as `name.slot`, which exist if its step
  /// count does. They are saved as rows of whole tensors.
  void save(Archive& archive, const std::string& name, std::size_t count, std::size_t master,
            const at::Tensor& operand, bool has_steps);

 private:
  at::Tensor made(std::size_t slot, std::size_t master, const at::Tensor& operand) const;
  at::Tensor placed(at::Tensor state) const;

  std::vector<Slot> slots_;
  std::size_t used_at_first_;  // number of slots that the initial values need
  StateStorage* storage_ = nullptr;
  std::size_t size_ = 0;          // the number of masters
  std::vector<Slice> slices_;     // the slice of each master; empty: all are whole
  std::vector<Tensors> tensors_;  // the tensors, by slot, then by master
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/optimizer_state.ipp>
#endif
