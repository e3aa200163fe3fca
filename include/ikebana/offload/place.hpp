#pragma once
// Where offloaded tensors lie, and memory there that is used again.
#include <ikebana/bridge/host_copies.hpp>
#include <map>
#include <mutex>

namespace ikebana::detail {

/// Memory in which offloaded tensors lie. The host reads and writes it as any other.
class Place {
 public:
  virtual ~Place() = default;
  /// Uninitialised memory, a tensor on the CPU. May throw.
  virtual at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::ScalarType type) = 0;
  /// The tensor's values are not needed soon.
  virtual void leave(const at::Tensor&) noexcept {}
  /// They are needed soon.
  virtual void expect(const at::Tensor&) noexcept {}
  /// They are needed now.
  virtual void populate(const at::Tensor&, bool /*writes*/) noexcept {}
};

/// Memory of the host, pinned where the device copies on streams of their own.
template <class = void>
class HostPlace final : public Place {
 public:
  explicit HostPlace(const bridge::HostCopies<>& copies) : copies_(copies) {}
  at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                      at::ScalarType type) override {
    return copies_.host_memory(sizes, strides, type);
  }

 private:
  bridge::HostCopies<> copies_;
};

/// Memory of a place that is used again, step after step, so that it is neither pinned nor touched
/// anew. Buffers may outlive the pool.
template <class = void>
class BufferPool : public std::enable_shared_from_this<BufferPool<>> {
 public:
  /// Bytes that return to their pool.
  struct Buffer {
    std::weak_ptr<BufferPool> pool;
    at::Tensor bytes;                   ///< one dimension; at least as many as were asked for
    bridge::StreamPoint last_use = {};  ///< until then a copy may use them

    Buffer(std::weak_ptr<BufferPool> from, at::Tensor memory)
        : pool(std::move(from)), bytes(std::move(memory)) {}
    ~Buffer() {
      if (auto own = pool.lock()) own->take_back(*this);
      else last_use.synchronize_quietly();
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
  };

  explicit BufferPool(std::shared_ptr<Place> place) : place_(std::move(place)) {}

  std::unique_ptr<Buffer> take(std::int64_t size) {
    const std::lock_guard lock(mutex_);
    auto found = free_.lower_bound(size);
    const bool fits = found != free_.end() && found->first <= size + size / 8;
    auto buffer = std::make_unique<Buffer>(
        this->weak_from_this(),
        fits ? found->second.bytes : place_->allocate({size}, {1}, at::kByte));
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
  Place& place() const { return *place_; }

 private:
  struct Free {
    at::Tensor bytes;
    bridge::StreamPoint last_use;
    bool is_unused = false;
  };
  void take_back(Buffer& buffer) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      const std::int64_t size = buffer.bytes.numel();
      free_.emplace(size, Free{std::move(buffer.bytes), std::move(buffer.last_use)});
    } catch (...) {  // there is no memory for the list: the buffer is freed
      buffer.last_use.synchronize_quietly();
    }
  }

  std::shared_ptr<Place> place_;
  std::multimap<std::int64_t, Free> free_;  // by size
  std::mutex mutex_;
};

}  // namespace ikebana::detail
