#pragma once
// The blocks that a pool keeps for later allocations, by size.
#include <array>
#include <cstdint>
#include <ikebana/memory/pool_allocator.hpp>
#include <ikebana/memory/size_classes.hpp>

namespace ikebana::detail {

/// One list for each size, of which the block that came last is taken first: it is most likely
/// still in the processor's cache. Not synchronised.
class BlockCache {
 public:
  using Block = bridge::PoolBlockV1;
  /// A block may serve a request of up to four sizes below its own: it is then at most half as
  /// large again as asked for. Without this a pool keeps blocks of every size that was ever used.
  static constexpr std::uint32_t sizes_above = 4;

  void put(Block& block) noexcept;
  /// nullptr where there is none that fits.
  Block* take(std::uint32_t size_class) noexcept;
  /// The largest; nullptr where there is none.
  Block* take_largest() noexcept;
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  Block* pop(std::uint32_t size_class) noexcept;
  /// The first size from `size_class` on, among those of its 64 bits and the next, that has a
  /// block.
  std::uint32_t next_used(std::uint32_t size_class) const noexcept;

  std::array<Block*, SizeClasses::count> first_{};
  std::array<std::uint64_t, (SizeClasses::count + 63) / 64> bits_{};
  std::size_t bytes_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/block_cache.ipp>
#endif
