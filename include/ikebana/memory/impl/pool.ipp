#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/error.hpp>
#include <ikebana/memory/pool.hpp>
#include <string>

namespace ikebana {

IKEBANA_INLINE std::size_t MemPool::checked(const MemPoolOptions& options) {
  if (!options.limit) return std::numeric_limits<std::size_t>::max();
  if (*options.limit < 0)
    throw BadValue("MemPool: limit is " + std::to_string(*options.limit) +
                   " bytes. Write how many the pool may hold, 0 or more.");
  return static_cast<std::size_t>(*options.limit);
}

IKEBANA_INLINE UseMemPool::UseMemPool(MemPool& pool)
    : allocator_(bridge::PoolAllocatorV1::install()),
      scope_(detail::make_shared_apart<bridge::OpenPoolScopeV1>()) {
  scope_->pool = pool.pool_;
  allocator_.open(scope_);
}

IKEBANA_INLINE MemPool& UseMemPool::on_cpu(MemPool& pool, c10::Device device) {
  if (device.is_cpu()) return pool;
  throw BadValue("UseMemPool: a MemPool is memory of the CPU, and the scope is for " +
                 device.str() +
                 ", whose allocator keeps memory itself. Leave the scope out, or use a "
                 "DeviceMemPool (ikebana/memory/device_pool.hpp) where that allocator has pools.");
}

}  // namespace ikebana
