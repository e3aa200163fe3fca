#pragma once
#include <ikebana/bridge/exact_type.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/memory/pool_allocator.hpp>
#include <ikebana/posix/library.hpp>
#include <mutex>
#include <utility>

namespace ikebana::bridge {

IKEBANA_INLINE PoolBlockV1& PoolBlockV1::of(void* data) noexcept {
  return *reinterpret_cast<PoolBlockV1*>(static_cast<std::byte*>(data) - header_bytes);
}

IKEBANA_INLINE PoolBlockV1& PoolBlockV1::make(c10::DataPtr block, PoolV1* pool, std::size_t bytes,
                                              std::uint32_t size_class) {
  const auto deleter = block.get_deleter();
  void* memory = block.get();
  return *new (memory)
      PoolBlockV1{pool, block.release_context(), deleter, bytes, nullptr, size_class};
}

IKEBANA_INLINE c10::DataPtr PoolAllocatorV1::allocate(std::size_t bytes) {
  if (bytes == 0) return {nullptr, nullptr, &free_block, c10::Device(c10::kCPU)};
  if (bytes > max_bytes) return underlying_.allocate(bytes);  // fails with LibTorch's own error
  auto* scope = innermost();
  std::byte* data = scope == nullptr ? allocate_outside(bytes).data()
                                     : scope->pool->allocate(bytes, underlying_).data();
  return {data, data, &free_block, c10::Device(c10::kCPU)};
}

IKEBANA_INLINE void PoolAllocatorV1::copy_data(void* to, const void* from,
                                               std::size_t count) const {
  default_copy_data(to, from, count);
}

IKEBANA_INLINE void PoolAllocatorV1::open(std::shared_ptr<OpenPoolScopeV1> scope) {
  auto& list = list_of_thread();
  scope->outer = list.first;
  list.first = std::move(scope);
  top_of_thread() = list.first.get();
}

IKEBANA_INLINE void PoolAllocatorV1::close(OpenPoolScopeV1& scope) noexcept {
  scope.is_closed.store(true, std::memory_order_release);
  if (top_of_thread() != nullptr) innermost();
}

IKEBANA_INLINE PoolAllocatorV1* PoolAllocatorV1::installed() noexcept {
  auto* counting = CountingAllocatorV2::installed();
  auto* present = counting != nullptr ? &counting->underlying() : c10::GetCPUAllocator();
  return present != nullptr && is_exactly<PoolAllocatorV1>(*present)
             ? static_cast<PoolAllocatorV1*>(present)
             : nullptr;
}

IKEBANA_INLINE PoolAllocatorV1& PoolAllocatorV1::install() {
  static std::mutex once;
  std::lock_guard lock(once);
  if (auto* present = installed()) return *present;
  ikebana::detail::keep_loaded(reinterpret_cast<const void*>(&free_block));
  if (auto* counting = CountingAllocatorV2::installed()) return put_below(*counting);
  auto* pooling = new PoolAllocatorV1(*c10::GetCPUAllocator());
  for (int priority = 0; installed() != pooling && priority < 256; ++priority)
    c10::SetCPUAllocator(pooling, static_cast<uint8_t>(priority));
  return *pooling;
}

IKEBANA_INLINE PoolAllocatorV1& PoolAllocatorV1::put_below(CountingAllocatorV2& counting) {
  while (true) {
    auto& below = counting.underlying();
    auto* pooling = new PoolAllocatorV1(below);
    if (counting.replace_underlying(below, *pooling)) return *pooling;
    delete pooling;  // another library put something there meanwhile
    if (auto* another = installed()) return *another;
  }
}

IKEBANA_INLINE PoolBlockV1& PoolAllocatorV1::allocate_outside(std::size_t bytes) {
  return PoolBlockV1::make(underlying_.allocate(bytes + PoolBlockV1::header_bytes), nullptr, bytes,
                           0);
}

IKEBANA_INLINE void PoolAllocatorV1::free_block(void* data) {
  if (data == nullptr) return;
  auto& block = PoolBlockV1::of(data);
  if (block.pool != nullptr) block.pool->free(block);
  else block.free_memory();
}

IKEBANA_INLINE OpenPoolScopeV1* PoolAllocatorV1::innermost() noexcept {
  auto*& top = top_of_thread();
  if (top == nullptr || !top->is_closed.load(std::memory_order_acquire)) return top;
  auto& first = list_of_thread().first;
  while (first != nullptr && first->is_closed.load(std::memory_order_acquire)) {
    auto outer = std::move(first->outer);
    first = std::move(outer);
  }
  return top = first.get();
}

IKEBANA_INLINE PoolAllocatorV1::List& PoolAllocatorV1::list_of_thread() {
  static thread_local List list;
  return list;
}

IKEBANA_INLINE OpenPoolScopeV1*& PoolAllocatorV1::top_of_thread() noexcept {
  static thread_local OpenPoolScopeV1* top = nullptr;
  return top;
}

}  // namespace ikebana::bridge
