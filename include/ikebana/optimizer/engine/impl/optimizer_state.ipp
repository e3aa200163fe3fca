#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/optimizer_state.hpp>

namespace ikebana::detail {

IKEBANA_INLINE StateWindow::StateWindow(StateStorage* storage, const MasterBucket& bucket) noexcept
    : storage_(bucket.window.empty() ? nullptr : storage), bucket_(bucket) {
  if (storage_ == nullptr) return;
  storage_->begin_window(bucket.window);
  storage_->begin_use(bucket.parameters, /*writes=*/true);
  storage_->begin_use(bucket.gradients, /*writes=*/false);
}

IKEBANA_INLINE StateWindow::~StateWindow() {
  if (storage_ == nullptr) return;
  storage_->end_window(bucket_.window);
  storage_->end_use(bucket_.parameters);
  storage_->end_use(bucket_.gradients);
}

IKEBANA_INLINE void undo(MasterBucket& bucket, StateStorage* storage) noexcept {
  if (!bucket.copies.any_taken()) return;
  const StateWindow window(storage, bucket);
  bucket.copies.put_back();
}

IKEBANA_INLINE bool has_slot(const Archive& archive, const Masters& masters,
                             const std::string& slot) {
  return std::ranges::any_of(
      masters.names, [&](const std::string& name) { return archive.has(name + "." + slot); });
}

IKEBANA_INLINE OptimizerState::OptimizerState(std::vector<Slot> all,
                                              std::optional<std::size_t> used)
    : slots_(std::move(all)), used_at_first_(used.value_or(slots_.size())) {}

IKEBANA_INLINE void OptimizerState::begin(const Masters& masters) {
  storage_ = masters.storage, size_ = masters.values.size(), slices_ = masters.slices;
}

IKEBANA_INLINE void OptimizerState::reserve(
    c10::function_ref<bool(std::size_t)> is_updated,
    c10::function_ref<at::Tensor(std::size_t)> operand) const {
  for (std::size_t i = 0; storage_ != nullptr && i < size_; ++i)
    for (std::size_t k = 0; k < used_at_first_ && is_updated(i); ++k) {
      const at::Tensor p = operand(i), like = slots_[k](p, slice(i, p));
      if (like.defined()) storage_->reserve_state(like);
    }
}

IKEBANA_INLINE std::int64_t OptimizerState::window_bytes() const {
  return storage_ == nullptr ? 0 : std::max(storage_->window_bytes(), std::int64_t{0});
}

IKEBANA_INLINE void OptimizerState::add_slots(std::size_t count,
                                              c10::function_ref<bool(std::size_t)> has_state,
                                              c10::function_ref<at::Tensor(std::size_t)> operand) {
  std::vector<Tensors> all = tensors_;
  for (std::size_t k = all.size(); k < count; ++k) {
    Tensors& slot = all.emplace_back(size_);
    for (std::size_t i = 0; i < size_; ++i)
      if (has_state(i)) slot[i] = made(k, i, operand(i));
  }
  tensors_ = std::move(all);
}

IKEBANA_INLINE void OptimizerState::drop_slots(std::size_t count) noexcept {
  if (tensors_.size() > count) tensors_.resize(count);
}

IKEBANA_INLINE void OptimizerState::make(std::size_t master, const at::Tensor& operand) {
  for (std::size_t k = 0; k < slots_in_use(); ++k) tensors_[k][master] = made(k, master, operand);
}

IKEBANA_INLINE void OptimizerState::forget(std::size_t master) noexcept {
  for (Tensors& slot : tensors_) slot[master].reset();
}

IKEBANA_INLINE std::int64_t OptimizerState::bytes(std::size_t master) const {
  std::size_t sum = 0;
  for (const Tensors& slot : tensors_)
    if (slot[master].defined()) sum += slot[master].nbytes();
  return static_cast<std::int64_t>(sum);
}

IKEBANA_INLINE void OptimizerState::add_to(MasterBucket& bucket, std::size_t master,
                                           bool has_windows) const {
  for (std::size_t k = 0; k < slots_in_use(); ++k) {
    const at::Tensor& state = bucket.state[k].emplace_back(tensors_[k][master]);
    if (state.defined() && has_windows) bucket.window.push_back(state);
  }
  bucket.state_bytes += bytes(master);
}

IKEBANA_INLINE bool OptimizerState::matches(const Bucket& bucket, std::size_t j,
                                            const at::Tensor& operand) const {
  for (std::size_t k = 0; k < slots_in_use(); ++k)
    if (const at::Tensor& state = bucket.state[k][j]; state.defined())
      return slots_[k].matches(state, operand);
  return true;
}

IKEBANA_INLINE Slice OptimizerState::slice(std::size_t master, const at::Tensor& operand) const {
  return slices_.empty() ? whole_slice(operand, 0) : slices_[master];
}

IKEBANA_INLINE Slice OptimizerState::slice_of(std::size_t slot, const Slice& of_master,
                                              const at::Tensor& state) const {
  return slots_[slot].cut(state, of_master, slots_[slot].block_size);
}

IKEBANA_INLINE void OptimizerState::save(Archive& archive, const std::string& name,
                                         std::size_t count, std::size_t master,
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

IKEBANA_INLINE at::Tensor OptimizerState::made(std::size_t slot, std::size_t master,
                                               const at::Tensor& operand) const {
  return placed(slots_[slot](operand, slice(master, operand)));
}

IKEBANA_INLINE at::Tensor OptimizerState::placed(at::Tensor state) const {
  return storage_ == nullptr || !state.defined() ? state : storage_->place_state(state);
}

}  // namespace ikebana::detail
