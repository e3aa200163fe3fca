#pragma once
// The memory of a MemPool: it takes blocks of another allocator, and keeps them when they are
// freed.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <ikebana/detail/form.hpp>
#include <ikebana/memory/pool_allocator.hpp>
#include <ikebana/posix/library.hpp>
#include <limits>
#include <memory>
#include <mutex>

namespace ikebana::detail {

/// Sizes in bytes, eight for each doubling, from 128 bytes on: a block is at most an eighth larger
/// than what is asked for, or 64 bytes if that is more. Multiples of 64 up to 1 KiB.
struct SizeClasses {
  static constexpr std::size_t smallest = 128;
  static constexpr int first_power = 7, last_power = 40;
  static constexpr std::uint32_t count = 8 * (last_power - first_power) + 1;
  /// The class of sizes beyond the largest class, 1 TiB.
  static constexpr std::uint32_t none = count;

  static constexpr std::uint32_t of(std::size_t bytes) noexcept {
    const std::size_t rounded = (bytes + 63) / 64 * 64;
    if (rounded <= smallest) return 0;
    const int power = static_cast<int>(std::bit_width(rounded - 1)) - 1;
    if (power >= last_power) return none;
    const int step = power - 3;
    const std::size_t above = rounded - (std::size_t{1} << power);
    const std::size_t eighths = (above + (std::size_t{1} << step) - 1) >> step;
    return static_cast<std::uint32_t>(8 * (power - first_power)) +
           static_cast<std::uint32_t>(eighths);
  }
  static constexpr std::size_t size(std::uint32_t size_class) noexcept {
    if (size_class == 0) return smallest;
    const std::uint32_t power = (size_class - 1) / 8 + first_power;
    const std::size_t eighths = (size_class - 1) % 8 + 1;
    return (std::size_t{1} << power) + (eighths << (power - 3));
  }
};

/// The blocks that a pool keeps for later allocations, in one list for each size. The block that
/// came last is taken first: it is most likely still in the processor's cache. Not synchronised.
class BlockCache {
 public:
  using Block = bridge::PoolBlockV1;
  /// A block may serve a request of up to four sizes below its own: it is then at most half as
  /// large again as the request. Without this a pool would keep blocks of every size that was ever
  /// used.
  static constexpr std::uint32_t sizes_above = 4;

  void put(Block& block) noexcept;
  /// Returns null if no block fits.
  Block* take(std::uint32_t size_class) noexcept;
  /// Returns the largest block, or null if the cache is empty.
  Block* take_largest() noexcept;
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  Block* pop(std::uint32_t size_class) noexcept;
  /// Returns the first size from `size_class` on that has a block, among the sizes of its 64 bits
  /// and the next.
  std::uint32_t next_used(std::uint32_t size_class) const noexcept;

  std::array<Block*, SizeClasses::count> first_{};
  std::array<std::uint64_t, (SizeClasses::count + 63) / 64> bits_{};
  std::size_t bytes_ = 0;
};

/// Exists as long as one of its blocks is in use, or a MemPool or a scope refers to it. Once only
/// blocks are left, each is returned to its allocator when it is freed.
class CachingPool final : public bridge::PoolV1 {
 public:
  using Block = bridge::PoolBlockV1;
  struct Counts {
    std::size_t reserved = 0;   ///< the bytes of blocks in use and of kept blocks, with headers and
                                ///< rounding
    std::size_t allocated = 0;  ///< the bytes as they were requested
    std::uint64_t hits = 0, misses = 0;
    std::uint64_t blocks = 0;  ///< the number of blocks in use
  };

  static std::shared_ptr<CachingPool> make(std::size_t limit);

  IKEBANA_INLINE Block& allocate(std::size_t bytes, c10::Allocator& underlying) override;

  IKEBANA_INLINE void free(Block& block) noexcept override;

  /// Returns memory that the pool keeps to its allocators, at least `at_least` bytes if it keeps so
  /// many. Returns the number of bytes.
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

  /// Counts a new block. If it does not fit below the limit, blocks that are kept are returned to
  /// make room.
  void reserve(std::size_t size, std::size_t bytes);
  void unreserve(std::size_t size) noexcept;
  [[noreturn]] void refuse(std::size_t bytes) const;

  /// Allocates a block. If memory is short, returns what the pool keeps, and tries once more.
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
