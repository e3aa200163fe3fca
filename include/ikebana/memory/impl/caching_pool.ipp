#pragma once
#include <bit>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/memory/caching_pool.hpp>
#include <string>
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

IKEBANA_INLINE std::shared_ptr<CachingPool> CachingPool::make(std::size_t limit) {
  keep_library();
  return {new CachingPool(limit), [](CachingPool* pool) { pool->close(); }};
}

IKEBANA_INLINE CachingPool::Block& CachingPool::allocate(std::size_t bytes,
                                                         c10::Allocator& underlying) {
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

IKEBANA_INLINE void CachingPool::free(Block& block) noexcept {
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

IKEBANA_INLINE std::size_t CachingPool::trim(std::size_t at_least) noexcept {
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

IKEBANA_INLINE CachingPool::Counts CachingPool::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

IKEBANA_INLINE CachingPool::Block* CachingPool::reuse(std::uint32_t size_class,
                                                      std::size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  Block* block = cache_.take(size_class);
  if (block == nullptr) return nullptr;
  ++counts_.hits, ++counts_.blocks;
  counts_.allocated += block->bytes = bytes;
  return block;
}

IKEBANA_INLINE void CachingPool::count_miss(std::size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  ++counts_.misses, ++counts_.blocks;
  counts_.allocated += bytes;
}

IKEBANA_INLINE void CachingPool::reserve(std::size_t size, std::size_t bytes) {
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

IKEBANA_INLINE void CachingPool::unreserve(std::size_t size) noexcept {
  std::lock_guard lock(mutex_);
  counts_.reserved -= size;
}

IKEBANA_INLINE void CachingPool::refuse(std::size_t bytes) const {
  throw OutOfMemory("MemPool: cannot allocate memory on the CPU: " + std::to_string(bytes) +
                    " bytes were requested, " + std::to_string(counts_.allocated) +
                    " are in use in blocks of " + std::to_string(counts_.reserved) +
                    " bytes, and the limit of this pool is " + std::to_string(limit_) +
                    ". Raise MemPoolOptions::limit, or free tensors of the pool.");
}

IKEBANA_INLINE c10::DataPtr CachingPool::allocate_or_trim(std::size_t size,
                                                          c10::Allocator& underlying) {
  try {
    return underlying.allocate(size);
  } catch (...) {
    if (trim() == 0) throw;
  }
  return underlying.allocate(size);
}

IKEBANA_INLINE void CachingPool::close() noexcept {
  std::unique_lock lock(mutex_);
  is_closed_ = true;
  const bool is_last = counts_.blocks == 0;
  BlockCache kept = std::exchange(cache_, {});
  counts_.reserved -= kept.bytes();
  lock.unlock();  // from here on the last block that is freed may end the pool
  if (is_last) delete this;
  while (Block* block = kept.take_largest()) block->free_memory();
}

}  // namespace ikebana::detail
