#pragma once
#include <ikebana/bridge/shared_memory_limit.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/without_values.hpp>
#include <utility>

namespace ikebana::bridge {

IKEBANA_INLINE SharedMemoryLimit::SharedMemoryLimit(std::int64_t bytes)
    : bytes_(ikebana::detail::without_values() ? 0 : bytes) {
  if (bytes_ == 0) return;
  std::lock_guard lock(mutex_);
  if (first_ == nullptr) around_ = allocator().limit();
  next_ = std::exchange(first_, this);
  apply();
}

IKEBANA_INLINE SharedMemoryLimit::~SharedMemoryLimit() {
  if (bytes_ == 0) return;
  std::lock_guard lock(mutex_);
  SharedMemoryLimit** link = &first_;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
  apply();
}

IKEBANA_INLINE bool SharedMemoryLimit::holds() const noexcept {
  std::lock_guard lock(mutex_);
  return bytes_ != 0 && bytes_ == smallest() && bytes_ < around_;
}

IKEBANA_INLINE std::int64_t SharedMemoryLimit::smallest() noexcept {
  std::int64_t bytes = around_;
  for (const SharedMemoryLimit* one = first_; one != nullptr; one = one->next_)
    bytes = std::min(bytes, one->bytes_);
  return bytes;
}

}  // namespace ikebana::bridge
