#pragma once
// The memory of a MemPool: blocks of another allocator, which it keeps when they are freed.
#include <ikebana/error.hpp>
#include <ikebana/memory/block_cache.hpp>
#include <ikebana/posix/library.hpp>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace ikebana::detail {

/// It exists as long as one of its blocks is in use, or a MemPool or a scope refers to it. Once
/// only blocks are left, each is returned to the allocator that it came from when it is freed.
class CachingPool final : public bridge::PoolV1 {
 public:
  using Block = bridge::PoolBlockV1;
  struct Counts {
    std::size_t reserved = 0;   ///< of blocks in use and kept, with headers and rounding
    std::size_t allocated = 0;  ///< as they were requested
    std::uint64_t hits = 0, misses = 0;
    std::uint64_t blocks = 0;  ///< in use
  };

  static std::shared_ptr<CachingPool> make(std::size_t limit) {
    keep_library();
    return {new CachingPool(limit), [](CachingPool* pool) { pool->close(); }};
  }

  Block& allocate(std::size_t bytes, c10::Allocator& underlying) override {
    const auto size_class = SizeClasses::of(bytes + Block::header_bytes);
    if (size_class == SizeClasses::none)
      return Block::make(underlying.allocate(bytes + Block::header_bytes), nullptr, bytes, 0);
    if (Block* block = reuse(size_class, bytes)) return *block;
    const auto size = SizeClasses::size(size_class);
    reserve(size, bytes);
    try {
      auto& block = Block::make(allocate_or_trim(size, underlying), this, bytes, size_class);
      count_miss(bytes);
      return block;
    } catch (...) {
      unreserve(size);
      throw;
    }
  }

  void free(Block& block) noexcept override {
    std::unique_lock lock(mutex_);
    counts_.allocated -= block.bytes;
    --counts_.blocks;
    if (!is_closed_) return cache_.put(block);
    counts_.reserved -= SizeClasses::size(block.size_class);
    const bool is_last = counts_.blocks == 0;
    lock.unlock();
    block.free_memory();
    if (is_last) delete this;
  }

  /// Returns memory that it keeps to the allocators that it came from, at least so many bytes of it
  /// where there are. The result is how many.
  std::size_t trim(std::size_t at_least = std::numeric_limits<std::size_t>::max()) noexcept {
    std::size_t freed = 0;
    while (freed < at_least) {
      Block* block = nullptr;
      {
        std::lock_guard lock(mutex_);
        block = cache_.take_largest();
        if (block == nullptr) break;
        counts_.reserved -= SizeClasses::size(block->size_class);
      }
      freed += SizeClasses::size(block->size_class);
      block->free_memory();
    }
    return freed;
  }

  Counts counts() const {
    std::lock_guard lock(mutex_);
    return counts_;
  }
  std::size_t limit() const noexcept { return limit_; }

 private:
  explicit CachingPool(std::size_t limit) : limit_(limit) {}
  ~CachingPool() = default;

  /// A pool of this library may be in use when the library is unloaded.
  static void keep_library() { keep_loaded(reinterpret_cast<const void*>(&keep_library)); }

  Block* reuse(std::uint32_t size_class, std::size_t bytes) noexcept {
    std::lock_guard lock(mutex_);
    Block* block = cache_.take(size_class);
    if (block == nullptr) return nullptr;
    ++counts_.hits, ++counts_.blocks;
    counts_.allocated += block->bytes = bytes;
    return block;
  }
  void count_miss(std::size_t bytes) noexcept {
    std::lock_guard lock(mutex_);
    ++counts_.misses, ++counts_.blocks;
    counts_.allocated += bytes;
  }

  /// Counts a new block. Where it does not fit below the limit, blocks that are kept make room.
  void reserve(std::size_t size, std::size_t bytes) {
    while (true) {
      std::size_t missing = 0;
      {
        std::lock_guard lock(mutex_);
        if (size <= limit_ && counts_.reserved <= limit_ - size) {
          counts_.reserved += size;
          return;
        }
        if (cache_.bytes() == 0 || size > limit_) refuse(bytes);
        missing = counts_.reserved + size - limit_;
      }
      trim(missing);
    }
  }
  void unreserve(std::size_t size) noexcept {
    std::lock_guard lock(mutex_);
    counts_.reserved -= size;
  }
  [[noreturn]] void refuse(std::size_t bytes) const {
    throw OutOfMemory("MemPool: cannot allocate memory on the CPU: " + std::to_string(bytes) +
                      " bytes were requested, " + std::to_string(counts_.allocated) +
                      " are in use in blocks of " + std::to_string(counts_.reserved) +
                      " bytes, and the limit of this pool is " + std::to_string(limit_) +
                      ". Raise MemPoolOptions::limit, or free tensors of the pool.");
  }

  /// Where memory is short, what the pool keeps is returned, and the allocation tried once more.
  c10::DataPtr allocate_or_trim(std::size_t size, c10::Allocator& underlying) {
    try {
      return underlying.allocate(size);
    } catch (...) {
      if (trim() == 0) throw;
    }
    return underlying.allocate(size);
  }

  void close() noexcept {
    std::unique_lock lock(mutex_);
    is_closed_ = true;
    const bool is_last = counts_.blocks == 0;
    BlockCache kept = std::exchange(cache_, {});
    counts_.reserved -= kept.bytes();
    lock.unlock();  // from here on the last block that is freed may end the pool
    if (is_last) delete this;
    while (Block* block = kept.take_largest()) block->free_memory();
  }

  mutable std::mutex mutex_;
  BlockCache cache_;
  Counts counts_;
  const std::size_t limit_;
  bool is_closed_ = false;
};

}  // namespace ikebana::detail
