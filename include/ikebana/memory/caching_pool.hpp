#pragma once
// The memory of a MemPool: blocks of another allocator, which it keeps when they are freed.
#include <ikebana/detail/form.hpp>
#include <ikebana/memory/block_cache.hpp>
#include <ikebana/posix/library.hpp>
#include <limits>
#include <memory>
#include <mutex>

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

  static std::shared_ptr<CachingPool> make(std::size_t limit);

  IKEBANA_INLINE Block& allocate(std::size_t bytes, c10::Allocator& underlying) override;

  IKEBANA_INLINE void free(Block& block) noexcept override;

  /// Returns memory that it keeps to the allocators that it came from, at least so many bytes of it
  /// where there are. The result is how many.
  std::size_t trim(std::size_t at_least = std::numeric_limits<std::size_t>::max()) noexcept;

  Counts counts() const;
  std::size_t limit() const noexcept { return limit_; }

 private:
  explicit CachingPool(std::size_t limit) : limit_(limit) {}
  ~CachingPool() = default;

  /// A pool of this library may be in use when the library is unloaded.
  static void keep_library() { keep_loaded(reinterpret_cast<const void*>(&keep_library)); }

  Block* reuse(std::uint32_t size_class, std::size_t bytes) noexcept;
  void count_miss(std::size_t bytes) noexcept;

  /// Counts a new block. Where it does not fit below the limit, blocks that are kept make room.
  void reserve(std::size_t size, std::size_t bytes);
  void unreserve(std::size_t size) noexcept;
  [[noreturn]] void refuse(std::size_t bytes) const;

  /// Where memory is short, what the pool keeps is returned, and the allocation tried once more.
  c10::DataPtr allocate_or_trim(std::size_t size, c10::Allocator& underlying);

  void close() noexcept;

  mutable std::mutex mutex_;
  BlockCache cache_;
  Counts counts_;
  const std::size_t limit_;
  bool is_closed_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/caching_pool.ipp>
#endif
