#pragma once
// The blocks that a pool keeps for later allocations, by size.
#include <array>
#include <bit>
#include <cstdint>
#include <ikebana/bridge/pool_allocator.hpp>
#include <ikebana/memory/size_classes.hpp>
#include <utility>

namespace ikebana::detail {

/// One list for each size, of which the block that came last is taken first: it is most likely
/// still in the processor's cache. Not synchronised.
class BlockCache {
 public:
  using Block = bridge::PoolBlockV1;
  /// A block may serve a request of up to four sizes below its own: it is then at most half as
  /// large again as asked for. Without this a pool keeps blocks of every size that was ever used.
  static constexpr std::uint32_t sizes_above = 4;

  void put(Block& block) noexcept {
    block.next = std::exchange(first_[block.size_class], &block);
    bits_[block.size_class / 64] |= std::uint64_t{1} << block.size_class % 64;
    bytes_ += SizeClasses::size(block.size_class);
  }
  /// nullptr where there is none that fits.
  Block* take(std::uint32_t size_class) noexcept {
    const std::uint32_t found = next_used(size_class);
    return found > size_class + sizes_above || found >= SizeClasses::count ? nullptr : pop(found);
  }
  /// The largest; nullptr where there is none.
  Block* take_largest() noexcept {
    for (std::size_t at = bits_.size(); at-- > 0;)
      if (bits_[at] != 0)
        return pop(static_cast<std::uint32_t>(64 * at + std::bit_width(bits_[at]) - 1));
    return nullptr;
  }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  Block* pop(std::uint32_t size_class) noexcept {
    Block* block = first_[size_class];
    first_[size_class] = std::exchange(block->next, nullptr);
    if (first_[size_class] == nullptr)
      bits_[size_class / 64] &= ~(std::uint64_t{1} << size_class % 64);
    bytes_ -= SizeClasses::size(size_class);
    return block;
  }
  /// The first size from `size_class` on, among those of its 64 bits and the next, that has a
  /// block.
  std::uint32_t next_used(std::uint32_t size_class) const noexcept {
    const std::size_t at = size_class / 64;
    const std::uint64_t here = bits_[at] >> size_class % 64;
    if (here != 0) return size_class + static_cast<std::uint32_t>(std::countr_zero(here));
    if (at + 1 == bits_.size() || bits_[at + 1] == 0) return SizeClasses::count;
    return static_cast<std::uint32_t>(64 * (at + 1)) +
           static_cast<std::uint32_t>(std::countr_zero(bits_[at + 1]));
  }

  std::array<Block*, SizeClasses::count> first_{};
  std::array<std::uint64_t, (SizeClasses::count + 63) / 64> bits_{};
  std::size_t bytes_ = 0;
};

}  // namespace ikebana::detail
