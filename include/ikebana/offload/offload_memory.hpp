#pragma once
// The memory that offloaded tensors have, and buffers of it that are used again.
#include <ikebana/bridge/host_copies.hpp>
#include <map>
#include <mutex>

namespace ikebana::detail {

/// Memory for offloaded tensors, which the host can read and write. Tensors of other memory may be
/// given to what is about pages, which then does nothing.
class OffloadMemory {
 public:
  virtual ~OffloadMemory() = default;
  /// Uninitialised memory, a tensor on the CPU. May throw.
  virtual at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::ScalarType type) = 0;
  /// Throws Error in a forked child, if what is stored is not its own there.
  virtual void check_process() const {}
  /// Takes the space of a tensor such as `like` that is to come. May throw.
  virtual void reserve(const at::Tensor& /*like*/) {}
  /// Its pages leave this process's memory; the values stay.
  virtual void release_pages(const at::Tensor&) noexcept {}
  /// They are read ahead.
  virtual void prefetch_pages(const at::Tensor&) noexcept {}
  /// They come into memory now, all at once.
  virtual void populate_pages(const at::Tensor&, bool /*writes*/) noexcept {}
};

/// Memory of the host, pinned where copies overlap with what the device computes.
template <class = void>
class HostMemory final : public OffloadMemory {
 public:
  explicit HostMemory(const bridge::HostCopies<>& copies) : copies_(copies) {}
  at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                      at::ScalarType type) override {
    return copies_.host_memory(sizes, strides, type);
  }

 private:
  bridge::HostCopies<> copies_;
};

/// Buffers that are used again, step after step, so that memory is neither pinned nor touched anew.
/// They may outlive the pool.
template <class = void>
class BufferPool : public std::enable_shared_from_this<BufferPool<>> {
 public:
  /// Bytes that return to their pool.
  struct Buffer {
    std::weak_ptr<BufferPool> pool;
    at::Tensor bytes;                   ///< one dimension; at least as many as were asked for
    bridge::StreamEvent last_use = {};  ///< until then a copy may use them

    Buffer(std::weak_ptr<BufferPool> from, at::Tensor memory)
        : pool(std::move(from)), bytes(std::move(memory)) {}
    ~Buffer() {
      if (auto own = pool.lock()) own->take_back(*this);
      else last_use.synchronize_quietly();
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
  };

  /// A bounded one frees as much as it allocates, so that it never has more than what was in use
  /// at once: units of unlike sizes leave nothing behind.
  explicit BufferPool(std::shared_ptr<OffloadMemory> memory, bool bounded = false)
      : memory_(std::move(memory)), bounded_(bounded) {}

  std::unique_ptr<Buffer> take(std::int64_t size) {
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
  /// Frees what no step has used since the last call.
  void free_unused() noexcept {
    const std::lock_guard lock(mutex_);
    for (auto at = free_.begin(); at != free_.end();) {
      if (!std::exchange(at->second.is_unused, true)) ++at;
      else at->second.last_use.synchronize_quietly(), at = free_.erase(at);
    }
  }
  OffloadMemory& memory() const { return *memory_; }
  /// Of buffers that are not in use.
  std::int64_t free_bytes() const {
    const std::lock_guard lock(mutex_);
    std::int64_t bytes = 0;
    for (const auto& [size, buffer] : free_) bytes += size;
    return bytes;
  }

 private:
  struct Free {
    at::Tensor bytes;
    bridge::StreamEvent last_use;
    bool is_unused = false;
  };
  void make_room(std::int64_t size) {
    for (std::int64_t freed = 0; freed < size && !free_.empty();) {
      const auto largest = std::prev(free_.end());
      largest->second.last_use.synchronize_quietly();
      freed += largest->first;
      free_.erase(largest);
    }
  }
  void take_back(Buffer& buffer) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      const std::int64_t size = buffer.bytes.numel();
      free_.emplace(size, Free{std::move(buffer.bytes), std::move(buffer.last_use)});
    } catch (...) {  // there is no memory for the list: the buffer is freed
      buffer.last_use.synchronize_quietly();
    }
  }

  std::shared_ptr<OffloadMemory> memory_;
  bool bounded_;
  std::multimap<std::int64_t, Free> free_;  // by size
  mutable std::mutex mutex_;
};

}  // namespace ikebana::detail
