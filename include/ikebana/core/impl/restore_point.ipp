#pragma once
#include <ikebana/core/restore_point.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/flat_copy.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void BufferCopies::add(const at::Tensor& to, const at::Tensor& from) {
  Lists& lists = all_[to.is_floating_point() ? 0 : 1];
  lists.to.push_back(to), lists.from.push_back(from);
}

IKEBANA_INLINE void BufferCopies::make() {
  for (Lists& lists : all_)
    if (!lists.to.empty()) at::_foreach_copy_(lists.to, lists.from, /*non_blocking=*/true);
}

IKEBANA_INLINE BufferBackup::BufferBackup(std::string name, const at::Tensor& buffer)
    : name_(std::move(name)), buffer_(buffer), version_(buffer) {
  take_memory();
  take_value();
}

IKEBANA_INLINE void BufferBackup::begin(BufferCopies& copies) {
  const bool moved = has_moved(), stale = version_.changed() || uncounted_;
  if (moved || storage_ == nullptr) take_memory();
  version_.record_again();
  if (!copy_.defined() && !changes_ && !uncounted_) return;
  if (moved || !copy_.defined() || (stale && storage_ == nullptr)) take_value();
  else if (stale && by_bytes_) copy_flat(copy_, buffer_);
  else if (stale) copies.add(copy_, former_);
}

IKEBANA_INLINE void BufferBackup::commit(bool first) noexcept {
  if (changes_ || (uncounted_ && !first)) return;
  changes_ = version_.changed() || has_moved();
  if (first && !changes_ && !uncounted_) copy_.reset();
}

IKEBANA_INLINE bool BufferBackup::restore() noexcept {
  try {
    if (has_moved()) buffer_.set_data(former_);
    if (copy_.defined()) {
      write();
      version_.record_again();
    }
  } catch (const std::exception&) {  // the error of a device that cannot be used any more
    return false;
  }
  const bool restored = !version_.changed();
  if (!restored) changes_ = true, version_.record_again();
  return restored;
}

IKEBANA_INLINE void BufferBackup::put_back_non_finite() {
  if (!copy_.defined() || !buffer_.is_floating_point() || !(version_.changed() || uncounted_))
    return;
  const at::Tensor now = buffer_.is_sparse() ? buffer_._values() : buffer_;
  if (!now.isfinite().all().item<bool>() && restore()) changes_ = true;
}

IKEBANA_INLINE const c10::StorageImpl* BufferBackup::storage() const {
  return buffer_.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

IKEBANA_INLINE bool BufferBackup::has_moved() const {
  return storage() != storage_ || buffer_.sizes() != former_.sizes() ||
         buffer_.dtype() != former_.dtype() ||
         (storage_ != nullptr && (buffer_.storage_offset() != former_.storage_offset() ||
                                  buffer_.strides() != former_.strides()));
}

IKEBANA_INLINE void BufferBackup::take_memory() {
  former_ = buffer_.detach();
  storage_ = storage();
  uncounted_ = may_change_uncounted(buffer_);
}

IKEBANA_INLINE void BufferBackup::take_value() {
  copy_.reset();
  const bool strided = storage_ != nullptr;
  if (strided && at::has_internal_overlap(buffer_) == at::MemOverlap::Yes) return;
  copy_ = former_.clone();
  by_bytes_ = are_flat_alike(buffer_, copy_);
}

IKEBANA_INLINE void BufferBackup::write() {
  if (storage_ == nullptr) {
    if (version_.changed()) buffer_.set_data(std::exchange(copy_, {})), changes_ = true;
  } else if (by_bytes_) {
    copy_flat(buffer_, copy_);
  } else {
    buffer_.variable_data().copy_(copy_, /*non_blocking=*/true);
  }
}

IKEBANA_INLINE RestorePoint::RestorePoint(c10::Device device) {
  if (at::isAccelerator(device.type())) device_generator_.emplace(device);
}

IKEBANA_INLINE void RestorePoint::begin(const torch::nn::Module& model) {
  has_gradients_ = at::GradMode::is_enabled();
  cpu_generator_.capture();
  if (device_generator_) device_generator_->capture();
  if (!collected_) return collect(model);
  if (buffers_.empty()) return;
  try {
    BufferCopies copies;
    for (BufferBackup& buffer : buffers_) buffer.begin(copies);
    copies.make();
  } catch (...) {  // some copies are old: all are made again
    collected_ = committed_ = false;
    throw;
  }
}

IKEBANA_INLINE void RestorePoint::commit() noexcept {
  const bool first = !std::exchange(committed_, true);
  for (BufferBackup& buffer : buffers_) buffer.commit(first);
}

IKEBANA_INLINE void RestorePoint::put_back_non_finite() {
  for (BufferBackup& buffer : buffers_) buffer.put_back_non_finite();
}

IKEBANA_INLINE void RestorePoint::restore() noexcept {
  // Autograd leaves them off if memory ends while it hands a profiler's callbacks to a thread.
  at::GradMode::set_enabled(has_gradients_);
  const at::NoGradGuard no_grad;
  lost_.clear();
  for (BufferBackup& buffer : buffers_)
    if (!buffer.restore()) lost_.push_back(&buffer);
  restore(cpu_generator_);
  if (device_generator_) restore(*device_generator_);
}

IKEBANA_INLINE std::string RestorePoint::take_lost() {
  std::string names;
  for (const BufferBackup* buffer : lost_)
    names += (names.empty() ? "`" : ", `") + buffer->name() + "`";
  lost_.clear();
  if (names.empty()) return {};
  return " Buffers that no earlier step had changed keep what this one wrote: " + names +
         ". From the next step on they are put back as well.";
}

IKEBANA_INLINE void RestorePoint::collect(const torch::nn::Module& model) {
  std::vector<BufferBackup> all;
  lost_.clear();
  for (const auto& item : each_once(model.named_buffers()))
    all.emplace_back(item.key(), item.value());
  lost_.reserve(all.size());
  buffers_ = std::move(all);
  collected_ = true;
}

IKEBANA_INLINE void RestorePoint::restore(const bridge::GeneratorState& generator) noexcept {
  try {
    generator.restore();
  } catch (const std::exception&) {  // the error of a device that cannot be used any more
  }
}

}  // namespace ikebana::detail
