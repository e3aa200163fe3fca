#pragma once
#include <bit>
#include <ikebana/detail/form.hpp>
#include <ikebana/memory/block_cache.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE void BlockCache::put(Block& block) noexcept {
  block.next = std::exchange(first_[block.size_class], &block);
  bits_[block.size_class / 64] |= std::uint64_t{1} << block.size_class % 64;
  bytes_ += SizeClasses::size(block.size_class);
}

IKEBANA_INLINE BlockCache::Block* BlockCache::take(std::uint32_t size_class) noexcept {
  const std::uint32_t found = next_used(size_class);
  return found > size_class + sizes_above || found >= SizeClasses::count ? nullptr : pop(found);
}

IKEBANA_INLINE BlockCache::Block* BlockCache::take_largest() noexcept {
  for (std::size_t at = bits_.size(); at-- > 0;)
    if (bits_[at] != 0)
      return pop(static_cast<std::uint32_t>(64 * at + std::bit_width(bits_[at]) - 1));
  return nullptr;
}

IKEBANA_INLINE BlockCache::Block* BlockCache::pop(std::uint32_t size_class) noexcept {
  Block* block = first_[size_class];
  first_[size_class] = std::exchange(block->next, nullptr);
  if (first_[size_class] == nullptr)
    bits_[size_class / 64] &= ~(std::uint64_t{1} << size_class % 64);
  bytes_ -= SizeClasses::size(size_class);
  return block;
}

IKEBANA_INLINE std::uint32_t BlockCache::next_used(std::uint32_t size_class) const noexcept {
  const std::size_t at = size_class / 64;
  const std::uint64_t here = bits_[at] >> size_class % 64;
  if (here != 0) return size_class + static_cast<std::uint32_t>(std::countr_zero(here));
  if (at + 1 == bits_.size() || bits_[at + 1] == 0) return SizeClasses::count;
  return static_cast<std::uint32_t>(64 * (at + 1)) +
         static_cast<std::uint32_t>(std::countr_zero(bits_[at + 1]));
}

}  // namespace ikebana::detail
