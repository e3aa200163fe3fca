#pragma once
// The memory that offloaded tensors have, and buffers of it that are used again.
#include <ikebana/bridge/host_copies.hpp>
#include <ikebana/detail/form.hpp>
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
class HostMemory final : public OffloadMemory {
 public:
  explicit HostMemory(const bridge::HostCopies& copies) : copies_(copies) {}
  IKEBANA_INLINE at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                                     at::ScalarType type) override;

 private:
  bridge::HostCopies copies_;
};

/// Buffers that are used again, step after step, so that memory is neither pinned nor touched anew.
/// They may outlive the pool.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  /// Bytes that return to their pool.
  struct Buffer {
    std::weak_ptr<BufferPool> pool;
    at::Tensor bytes;                   ///< one dimension; at least as many as were asked for
    bridge::StreamEvent last_use = {};  ///< until then a copy may use them

    Buffer(std::weak_ptr<BufferPool> from, at::Tensor memory)
        : pool(std::move(from)), bytes(std::move(memory)) {}
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
  };

  /// A bounded one frees as much as it allocates, so that it never has more than what was in use
  /// at once: units of unlike sizes leave nothing behind.
  explicit BufferPool(std::shared_ptr<OffloadMemory> memory, bool bounded = false)
      : memory_(std::move(memory)), bounded_(bounded) {}

  std::unique_ptr<Buffer> take(std::int64_t size);
  /// Frees what no step has used since the last call.
  void free_unused() noexcept;
  OffloadMemory& memory() const { return *memory_; }
  /// Of buffers that are not in use.
  std::int64_t free_bytes() const;

 private:
  struct Free {
    at::Tensor bytes;
    bridge::StreamEvent last_use;
    bool is_unused = false;
  };
  void make_room(std::int64_t size);
  void take_back(Buffer& buffer) noexcept;

  std::shared_ptr<OffloadMemory> memory_;
  bool bounded_;
  std::multimap<std::int64_t, Free> free_;  // by size
  mutable std::mutex mutex_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/offload/impl/offload_memory.ipp>
#endif
