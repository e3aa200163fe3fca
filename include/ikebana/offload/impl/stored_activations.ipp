#pragma once
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/offload/stored_activations.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void StoredActivations::begin_step() noexcept {
  const std::lock_guard lock(mutex_);
  traffic_ = {};
  traffic_.peak_stored = stored_;
}

IKEBANA_INLINE void StoredActivations::end_step(OffloadTraffic& all) noexcept {
  pool_->free_unused();
  const std::lock_guard lock(mutex_);
  all.activations_out = traffic_.activations_out, all.activations_back = traffic_.activations_back;
  all.copies_out += traffic_.copies_out, all.copies_back += traffic_.copies_back;
  all.peak_stored = traffic_.peak_stored;
}

IKEBANA_INLINE void StoredActivations::begin_forward() {
  pool_->memory().check_process();
  const std::lock_guard lock(mutex_);
  sections_.clear(), known_.clear();
  sections_.emplace_back();
  is_forward_ = true;
}

IKEBANA_INLINE void StoredActivations::begin_section() {
  const std::lock_guard lock(mutex_);
  if (sections_.empty() || !sections_.back().empty()) sections_.emplace_back();
  release_sources(sections_.size() - 1);
}

IKEBANA_INLINE void StoredActivations::end_forward() noexcept {
  const std::lock_guard lock(mutex_);
  known_.clear();
  is_forward_ = false;
  try {
    release_sources(sections_.size() + 1);
  } catch (...) {  // the device can no longer be used
    sources_.clear();
  }
}

IKEBANA_INLINE StoredActivations::Pointer StoredActivations::add(const at::Tensor& t,
                                                                 std::int64_t first,
                                                                 std::int64_t size) {
  const InnerPhaseScope scope(InnerPhase::Offload);
  const std::lock_guard lock(mutex_);
  auto& all = known_[t.storage().unsafeGetStorageImpl()];
  const c10::VariableVersion& counter = t.unsafeGetTensorImpl()->version_counter();
  Known known{t.storage().getWeakStorageImpl(), counter, present(counter), first, size, {}};
  for (const Known& other : all)
    if (other.is(known))
      if (Pointer one = other.stored.lock()) return one;
  Pointer one = store(t, first, size);
  known.stored = one;
  all.push_back(std::move(known));
  sections_.back().push_back(one);
  return one;
}

IKEBANA_INLINE at::Tensor StoredActivations::get(StoredActivation& one) {
  const InnerPhaseScope scope(InnerPhase::Offload);
  const std::lock_guard lock(mutex_);
  begin_to_return(one);
  copies_.wait_for(one.arrived);
  if (copies_.overlap() && one.section > 0) return_ahead(one.section - 1);
  return one.on_device;
}

IKEBANA_INLINE void StoredActivations::release(StoredActivation& one) noexcept {
  const std::lock_guard lock(mutex_);
  wait_for_arrival(one);
  one.on_device.reset();
}

IKEBANA_INLINE void StoredActivations::end(StoredActivation& one) noexcept {
  const std::lock_guard lock(mutex_);
  wait_for_arrival(one);
  stored_ -= one.size;
}

IKEBANA_INLINE bool StoredActivations::Known::is(const Known& other) const {
  static_assert(sizeof(c10::VariableVersion) == sizeof(void*));
  const bool same_counter =
      std::memcmp(static_cast<const void*>(&counter), &other.counter, sizeof counter) == 0;
  return same_counter && version == other.version && first == other.first && size == other.size &&
         storage.use_count() > 0;
}

IKEBANA_INLINE StoredActivations::Pointer StoredActivations::store(const at::Tensor& t,
                                                                   std::int64_t first,
                                                                   std::int64_t size) {
  auto one = make_shared_apart<StoredActivation>(this->shared_from_this(), pool_->take(size));
  one->counter = t.unsafeGetTensorImpl()->version_counter();
  one->version = present(one->counter);
  one->section = sections_.size() - 1;
  const at::Tensor source = tensor_on(t.storage(), {size}, {1}, first, at::kByte);
  if (copies_.overlap()) sources_.push_back({one->section, source, {}});
  auto& buffer = *one->buffer;
  buffer.last_use = copies_.to_host(host_bytes(buffer, size), source, buffer.last_use);
  if (copies_.overlap()) sources_.back().copied = buffer.last_use;
  pool_->memory().release_pages(buffer.bytes);
  one->size = size, stored_ += size;
  traffic_.peak_stored = std::max(traffic_.peak_stored, stored_);
  traffic_.activations_out += size, ++traffic_.copies_out;
  return one;
}

IKEBANA_INLINE void StoredActivations::begin_to_return(StoredActivation& one) {
  if (one.on_device.defined()) return;
  auto& buffer = *one.buffer;
  at::Tensor on_device = at::empty({one.size}, at::TensorOptions(device()).dtype(at::kByte));
  one.arrived = buffer.last_use =
      copies_.to_device(on_device, host_bytes(buffer, one.size), buffer.last_use);
  pool_->memory().release_pages(buffer.bytes);
  if (is_forward_)  // in a backward within the loss
    known_[on_device.storage().unsafeGetStorageImpl()].push_back(
        {on_device.storage().getWeakStorageImpl(), one.counter, one.version, 0, one.size,
         one.weak_from_this()});
  one.on_device = std::move(on_device);
  traffic_.activations_back += one.size, ++traffic_.copies_back;
}

IKEBANA_INLINE void StoredActivations::return_ahead(std::size_t section) noexcept {
  try {
    for (const auto& weak : sections_.at(section))
      if (const Pointer one = weak.lock()) begin_to_return(*one);
  } catch (...) {
  }
}

IKEBANA_INLINE void StoredActivations::release_sources(std::size_t section) {
  while (!sources_.empty() && sources_.front().section + 1 < section) {
    copies_.wait_for(sources_.front().copied);
    sources_.pop_front();
  }
}

IKEBANA_INLINE std::uint32_t StoredActivations::present(const c10::VariableVersion& counter) {
  return counter.enabled() ? counter.current_version() : 0;
}

IKEBANA_INLINE void StoredActivations::wait_for_arrival(StoredActivation& one) noexcept {
  if (one.on_device.defined()) copies_.wait_for_quietly(one.arrived);
}

IKEBANA_INLINE at::Tensor StoredActivations::host_bytes(const BufferPool::Buffer& buffer,
                                                        std::int64_t size) {
  return buffer.bytes.narrow(0, 0, size);
}

}  // namespace ikebana::detail
