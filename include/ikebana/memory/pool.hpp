#pragma once
// Defines MemPool and UseMemPool: memory of the CPU that is kept for later allocations.
#include <cstdint>
#include <ikebana/bridge/device.hpp>
#include <ikebana/memory/caching_pool.hpp>
#include <ikebana/memory/pool_allocator.hpp>
#include <memory>
#include <optional>

namespace ikebana {

/// The options of a MemPool.
struct MemPoolOptions {
  /// The most bytes that the pool may hold, in use or kept. Beyond it, the pool releases what it
  /// keeps; if that is not enough for an allocation, it throws OutOfMemory. No value: no limit.
  std::optional<std::int64_t> limit = std::nullopt;
};

/// Memory on the CPU that is not released when a tensor is freed, but kept for the next tensor of
/// about its size. LibTorch's CPU allocator asks the system for the memory of each large tensor,
/// and the system clears each page at its first use; a pool saves this. The counterpart of
/// `torch.cuda.MemPool`. LibTorch's allocator for CUDA keeps memory anyway; DeviceMemPool
/// (memory/device_pool.hpp) makes pools of it.
///
/// Only allocations within UseMemPool come from it. A tensor may be freed on any thread, after the
/// scope, and after the pool: its memory is then released at once.
///
/// Sizes are rounded up by an eighth at most, and a kept block serves a request that is up to a
/// third smaller, so `reserved` is more than `allocated`. Kept memory is released by `trim`, at the
/// limit, if memory is short, and with the pool. Costs 64 bytes for each block.
class MemPool {
 public:
  /// Makes an empty pool. Throws BadValue for a negative limit.
  explicit MemPool(MemPoolOptions options = {})
      : pool_(detail::CachingPool::make(checked(options))) {}
  MemPool(const MemPool&) = delete;
  MemPool& operator=(const MemPool&) = delete;

  /// Returns the bytes that the pool holds, in use and kept, as it requested them from the CPU's
  /// allocator.
  std::int64_t reserved() const { return to_bytes(pool_->counts().reserved); }
  /// Returns the bytes in use, as LibTorch requested them. With a MemoryCounter they are 64 more
  /// per tensor.
  std::int64_t allocated() const { return to_bytes(pool_->counts().allocated); }
  /// Returns the number of allocations that kept memory served.
  std::uint64_t hits() const { return pool_->counts().hits; }
  /// Returns the number of allocations that kept memory did not serve.
  std::uint64_t misses() const { return pool_->counts().misses; }
  /// Returns kept memory to the CPU's allocator, as `torch.cuda.empty_cache` does. Returns the
  /// number of bytes. May be called on any thread.
  std::int64_t trim() noexcept { return to_bytes(pool_->trim()); }

 private:
  friend class UseMemPool;
  static std::size_t checked(const MemPoolOptions& options);
  static std::int64_t to_bytes(std::size_t n) noexcept { return static_cast<std::int64_t>(n); }

  std::shared_ptr<detail::CachingPool> pool_;
};

/// RAII: what this thread allocates on the CPU through LibTorch comes from `pool`, as under
/// `torch.cuda.use_mem_pool`. Backward of a graph on the CPU runs on the thread that calls it, so a
/// step is within the scope as a whole; threads of a loader, and threads on which operators
/// compute, are not. The innermost of several scopes holds; they may be destroyed in any order. A
/// scope that is destroyed on another thread also ends at once, but its pool's memory is kept until
/// the thread that made the scope allocates again or ends.
///
/// With the first scope an allocator is put in front of LibTorch's, below a counting allocator:
/// MemoryCounter and MemoryLimit count the same bytes as without a pool. It stays until the process
/// ends; outside of scopes each allocation then takes 64 bytes more and some nanoseconds.
/// LibTorch's profiler sees allocations that the pool does not serve from what it keeps.
class UseMemPool {
 public:
  /// Opens the scope on this thread.
  explicit UseMemPool(MemPool& pool);
  /// Opens the scope for tensors of `device`. Throws BadValue if that is not the CPU: the scope
  /// would do nothing there.
  UseMemPool(MemPool& pool, c10::Device device) : UseMemPool(on_cpu(pool, device)) {}
  ~UseMemPool() { allocator_.close(*scope_); }
  UseMemPool(const UseMemPool&) = delete;
  UseMemPool& operator=(const UseMemPool&) = delete;

 private:
  static MemPool& on_cpu(MemPool& pool, c10::Device device);

  bridge::PoolAllocatorV1& allocator_;
  std::shared_ptr<bridge::OpenPoolScopeV1> scope_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/pool.ipp>
#endif
