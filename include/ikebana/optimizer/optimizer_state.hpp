#pragma once
// The tensors of an optimizer's state: made at the first gradient, stored where a policy places
// them, saved and loaded; and the windows in which an update uses them.
#include <algorithm>
#include <ikebana/optimizer/bucket.hpp>
#include <utility>

namespace ikebana::detail {

/// While it exists, the window of a bucket is open, if the bucket has one.
class StateWindow {
 public:
  StateWindow(StateStorage* storage, const Bucket& bucket) noexcept
      : storage_(bucket.window.empty() ? nullptr : storage), bucket_(bucket) {
    if (storage_ == nullptr) return;
    storage_->begin_window(bucket.window);
    storage_->begin_use(bucket.parameters, /*writes=*/true);
    storage_->begin_use(bucket.gradients, /*writes=*/false);
  }
  ~StateWindow() {
    if (storage_ == nullptr) return;
    storage_->end_window(bucket_.window);
    storage_->end_use(bucket_.parameters);
    storage_->end_use(bucket_.gradients);
  }
  StateWindow(const StateWindow&) = delete;
  StateWindow& operator=(const StateWindow&) = delete;

 private:
  StateStorage* storage_;
  const Bucket& bucket_;
};

/// Puts back what an update of the bucket changed, if that was copied.
inline void undo(Bucket& bucket, StateStorage* storage) noexcept {
  if (!bucket.copies.any_taken()) return;
  const StateWindow window(storage, bucket);
  bucket.copies.put_back();
}

/// Whether a state that is loaded has tensors of that slot for one of these masters. Those of
/// others say nothing: under InBackward each parameter has an optimizer of its own.
inline bool has_slot(const Archive& archive, const Masters& masters, const std::string& slot) {
  return std::ranges::any_of(
      masters.names, [&](const std::string& name) { return archive.has(name + "." + slot); });
}

/// State by slot and master. An `operand` is what the update of a master computes with: its state
/// is made like it.
/// A template, so that only files whose recipe has an optimizer compile it.
template <class = void>
class OptimizerState {
 public:
  explicit OptimizerState(std::vector<Slot> all, std::optional<std::size_t> used = {})
      : slots_(std::move(all)), used_at_first_(used.value_or(slots_.size())) {}

  void begin(const Masters& masters) {
    storage_ = masters.storage, size_ = masters.values.size(), slices_ = masters.slices;
  }
  /// Asks the storage for the space of the state of these masters.
  template <class IsUpdated, class Operand>
  void reserve(const IsUpdated& is_updated, const Operand& operand) const {
    for (std::size_t i = 0; storage_ != nullptr && i < size_; ++i)
      for (std::size_t k = 0; k < used_at_first_ && is_updated(i); ++k) {
        const at::Tensor p = operand(i), like = slots_[k](p, slice(i, p));
        if (like.defined()) storage_->reserve_state(like);
      }
  }
  StateStorage* storage() const { return storage_; }
  /// As `StateStorage::window_bytes`.
  std::int64_t window_bytes() const {
    return storage_ == nullptr ? 0 : std::max(storage_->window_bytes(), std::int64_t{0});
  }
  /// How many slots are used.
  std::size_t slots_in_use() const { return tensors_.size(); }
  /// Uses slots up to `count`. Masters for which `has_state(i)` is true get their tensors.
  template <class HasState, class Operand>
  void add_slots(std::size_t count, const HasState& has_state, const Operand& operand) {
    std::vector<Tensors> all = tensors_;
    for (std::size_t k = all.size(); k < count; ++k) {
      Tensors& slot = all.emplace_back(size_);
      for (std::size_t i = 0; i < size_; ++i)
        if (has_state(i)) slot[i] = made(k, i, operand(i));
    }
    tensors_ = std::move(all);
  }
  /// Uses no slots but the first `count`.
  void drop_slots(std::size_t count) noexcept {
    if (tensors_.size() > count) tensors_.resize(count);
  }
  /// Makes the tensors of a master.
  void make(std::size_t master, const at::Tensor& operand) {
    for (std::size_t k = 0; k < slots_in_use(); ++k) tensors_[k][master] = made(k, master, operand);
  }
  void forget(std::size_t master) noexcept {
    for (Tensors& slot : tensors_) slot[master].reset();
  }
  std::int64_t bytes(std::size_t master) const {
    std::size_t sum = 0;
    for (const Tensors& slot : tensors_)
      if (slot[master].defined()) sum += slot[master].nbytes();
    return static_cast<std::int64_t>(sum);
  }
  /// Appends the tensors of a master to those of its bucket, and to its window if there are any.
  void add_to(Bucket& bucket, std::size_t master, bool has_windows) const {
    for (std::size_t k = 0; k < slots_in_use(); ++k) {
      const at::Tensor& state = bucket.state[k].emplace_back(tensors_[k][master]);
      if (state.defined() && has_windows) bucket.window.push_back(state);
    }
    bucket.state_bytes += bytes(master);
  }
  /// Whether the state of parameter `j` of a bucket fits its operand.
  bool matches(const Bucket& bucket, std::size_t j, const at::Tensor& operand) const {
    for (std::size_t k = 0; k < slots_in_use(); ++k)
      if (const at::Tensor& state = bucket.state[k][j]; state.defined())
        return slots_[k].matches(state, operand);
    return true;
  }
  /// The slice that a master is.
  Slice slice(std::size_t master, const at::Tensor& operand) const {
    return slices_.empty() ? whole_slice(operand, 0) : slices_[master];
  }
  /// Which part of the whole parameter's state `state` is, the tensor of a slot of the master that
  /// is `of_master`. Ranks have the rows of their masters; all rows, with equal values
  /// (Adafactor's means over columns); or a range of blocks of which the first and the last may be
  /// the neighbours' as well, with equal values (AdamW8bit's scales).
  Slice slice_of(std::size_t slot, const Slice& of_master, const at::Tensor& state) const {
    return slots_[slot].cut(state, of_master, slots_[slot].block_size);
  }
  /// Saves or loads the first `count` slots of a master as `name.slot`, which exist if its count of
  /// steps does. They are rows of whole ones.
  void save(Archive& archive, const std::string& name, std::size_t count, std::size_t master,
            const at::Tensor& operand, bool has_steps) {
    const Slice of_master = slice(master, operand);
    for (std::size_t k = 0; k < count; ++k) {
      const at::Tensor like = slots_[k].make ? slots_[k](operand, of_master) : operand;
      if (!like.defined()) continue;
      const Slice rows = slice_of(k, of_master, like);
      const std::string slot = name + "." + slots_[k].name;
      archive.rows_of(rows, [&] {
        if (archive.optional(slot, tensors_[k][master], like) != has_steps)
          archive.add_missing(has_steps ? slot : name + ".step");
      });
      if (at::Tensor* loaded = archive.checked_copy(slot)) *loaded = placed(std::move(*loaded));
    }
  }

 private:
  at::Tensor made(std::size_t slot, std::size_t master, const at::Tensor& operand) const {
    return placed(slots_[slot](operand, slice(master, operand)));
  }
  at::Tensor placed(at::Tensor state) const {
    return storage_ == nullptr || !state.defined() ? state : storage_->place_state(state);
  }

  std::vector<Slot> slots_;
  std::size_t used_at_first_;  // slots of the values that the optimizer is made with
  StateStorage* storage_ = nullptr;
  std::size_t size_ = 0;          // the number of masters
  std::vector<Slice> slices_;     // of each; empty: all are whole
  std::vector<Tensors> tensors_;  // by slot, then by master
};

}  // namespace ikebana::detail
