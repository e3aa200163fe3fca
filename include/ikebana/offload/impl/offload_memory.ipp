#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/offload/offload_memory.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor HostMemory::allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                                               at::ScalarType type) {
  return copies_.host_memory(sizes, strides, type);
}

IKEBANA_INLINE BufferPool::Buffer::~Buffer() {
  if (auto own = pool.lock()) own->take_back(*this);
  else last_use.synchronize_quietly();
}

IKEBANA_INLINE std::unique_ptr<BufferPool::Buffer> BufferPool::take(std::int64_t size) {
  const std::lock_guard lock(mutex_);
  auto found = free_.lower_bound(size);
  const bool fits = found != free_.end() && found->first <= size + size / 8;
  if (!fits && bounded_) make_room(size);
  auto buffer = std::make_unique<Buffer>(
      this->weak_from_this(),
      fits ? found->second.bytes : memory_->allocate({size}, {1}, at::kByte));
  if (fits) {
    buffer->last_use = std::move(found->second.last_use);
    free_.erase(found);
  }
  return buffer;
}

IKEBANA_INLINE void BufferPool::free_unused() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto at = free_.begin(); at != free_.end();) {
    if (!std::exchange(at->second.is_unused, true)) ++at;
    else at->second.last_use.synchronize_quietly(), at = free_.erase(at);
  }
}

IKEBANA_INLINE std::int64_t BufferPool::free_bytes() const {
  const std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const auto& [size, buffer] : free_) bytes += size;
  return bytes;
}

IKEBANA_INLINE void BufferPool::make_room(std::int64_t size) {
  for (std::int64_t freed = 0; freed < size && !free_.empty();) {
    const auto largest = std::prev(free_.end());
    largest->second.last_use.synchronize_quietly();
    freed += largest->first;
    free_.erase(largest);
  }
}

IKEBANA_INLINE void BufferPool::take_back(Buffer& buffer) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const std::int64_t size = buffer.bytes.numel();
    free_.emplace(size, Free{std::move(buffer.bytes), std::move(buffer.last_use)});
  } catch (...) {  // there is no memory for the list: the buffer is freed
    buffer.last_use.synchronize_quietly();
  }
}

}  // namespace ikebana::detail
