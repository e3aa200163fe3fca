#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/memory/saved_by.hpp>

namespace ikebana {

IKEBANA_INLINE std::string SavedTensor::text() const {
  return saved_by + " saved " + c10::toString(dtype) + c10::str(at::IntArrayRef(sizes)) + " on " +
         device.str() + (label.empty() ? "" : " in " + label);
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE ByteRange::ByteRange(const at::Tensor& t) {
  if (t.numel() == 0) return;
  std::int64_t last = t.storage_offset();
  for (std::int64_t i = 0; i < t.dim(); ++i) last += (t.size(i) - 1) * t.stride(i);
  const auto size = static_cast<std::int64_t>(t.itemsize());
  begin = t.storage_offset() * size, end = (last + 1) * size;
}

IKEBANA_INLINE bool ByteRange::overlaps(const ByteRange& other) const {
  return begin < other.end && other.begin < end;  // an empty one overlaps none
}

/// What identifies a version counter, which tensors share that count their changes together.
inline const void* counter_of(const at::Tensor& t) {
  const auto& version = t.unsafeGetTensorImpl()->version_counter();
  const void* counter = nullptr;
  static_assert(sizeof(version) == sizeof(counter));  // it is one pointer, which nothing returns
  std::memcpy(&counter, static_cast<const void*>(&version), sizeof(counter));
  return counter;
}

IKEBANA_INLINE SavedTensor SavedEntry::described(WriteEffect effect) const {
  return {saved_by,        label,  tensor.sizes().vec(), tensor.scalar_type(),
          tensor.device(), effect, version.changed()};
}

IKEBANA_INLINE bool effect_of_write(const at::Tensor& t, const SavedEntry& entry,
                                    WriteEffect& effect) {
  const bool counted = counter_of(t) == counter_of(entry.tensor);
  const bool overlaps =
      same_storage(t, entry.tensor) && ByteRange(t).overlaps(ByteRange(entry.tensor));
  effect = !counted   ? WriteEffect::WrongGradients
           : overlaps ? WriteEffect::Throws
                      : WriteEffect::ThrowsNeedlessly;
  return counted || overlaps;
}

IKEBANA_INLINE void SavedEntries::add(SavedEntry& entry) {
  std::lock_guard lock(mutex_);
  by_memory_.emplace(memory_of(entry.tensor), &entry);
}

IKEBANA_INLINE void SavedEntries::remove(const SavedEntry& entry) noexcept {
  std::lock_guard lock(mutex_);
  auto [at, end] = by_memory_.equal_range(memory_of(entry.tensor));
  while (at != end && at->second != &entry) ++at;
  if (at != end) by_memory_.erase(at);
}

IKEBANA_INLINE std::string SavedEntries::written_by(const SavedEntry& entry) {
  std::lock_guard lock(mutex_);
  return entry.written_by;
}

IKEBANA_INLINE const void* SavedEntries::memory_of(const at::Tensor& t) {
  return t.has_storage() ? static_cast<const void*>(key_of(t)) : counter_of(t);
}

}  // namespace ikebana::detail
