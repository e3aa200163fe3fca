#pragma once
// Routes what a thread allocates on the CPU to a pool, while a scope is open there: LibTorch's own
// CPU allocator has no pools, so an allocator that has is put in front of it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ikebana/bridge/counting_allocator.hpp>
#include <ikebana/bridge/exact_type.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/posix/library.hpp>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace ikebana::bridge {

class PoolV1;

/// What stands in front of each block: who frees it. 64 bytes, which preserve its alignment.
struct PoolBlockV1 {
  PoolV1* pool;  ///< nullptr: a block of no pool
  void* context;
  c10::DeleterFnPtr deleter;  ///< frees `context`, which is this block's memory
  std::size_t bytes;          ///< as they were requested
  PoolBlockV1* next;          ///< of the blocks that the pool keeps
  std::uint32_t size_class;

  static constexpr std::size_t header_bytes = 64;
  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(this) + header_bytes; }
  static PoolBlockV1& of(void* data) noexcept {
    return *reinterpret_cast<PoolBlockV1*>(static_cast<std::byte*>(data) - header_bytes);
  }
  /// Writes the header into a block of another allocator.
  static PoolBlockV1& make(c10::DataPtr block, PoolV1* pool, std::size_t bytes,
                           std::uint32_t size_class) {
    const auto deleter = block.get_deleter();
    void* memory = block.get();
    return *new (memory)
        PoolBlockV1{pool, block.release_context(), deleter, bytes, nullptr, size_class};
  }
  void free_memory() noexcept { deleter(context); }
};
static_assert(sizeof(PoolBlockV1) <= PoolBlockV1::header_bytes);

/// Where the blocks of a scope come from, and go back to. Both may be called on any thread, `free`
/// also after all scopes have closed.
class PoolV1 {
 public:
  /// A block with room for `bytes`, of its own or of `underlying`. Throws where there is no memory.
  virtual PoolBlockV1& allocate(std::size_t bytes, c10::Allocator& underlying) = 0;
  virtual void free(PoolBlockV1& block) noexcept = 0;

 protected:
  ~PoolV1() = default;
};

/// One open scope of a thread. It is closed by a flag, on any thread; the thread itself then drops
/// it, when it next allocates or ends. So its pool, which it keeps alive, is never in use then.
struct OpenPoolScopeV1 {
  std::shared_ptr<PoolV1> pool;
  std::atomic<bool> is_closed{false};
  std::shared_ptr<OpenPoolScopeV1> outer;
};

/// Forwards to the allocator that was installed before, or to the pool of the calling thread's
/// innermost open scope. It lies below a CountingAllocatorV2, whichever of the two came first, so
/// that bytes are counted as they are requested and not as a pool keeps them. Never destroyed, and
/// not final: see CountingAllocatorV2. Other libraries call it by its virtual functions, so that
/// all of a process share one list of scopes per thread.
class PoolAllocatorV1 : public c10::Allocator {
 public:
  explicit PoolAllocatorV1(c10::Allocator& underlying) : underlying_(underlying) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &free_block, c10::Device(c10::kCPU)};
    if (bytes > max_bytes) return underlying_.allocate(bytes);  // fails with LibTorch's own error
    auto* scope = innermost();
    std::byte* data = scope == nullptr ? allocate_outside(bytes).data()
                                       : scope->pool->allocate(bytes, underlying_).data();
    return {data, data, &free_block, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t count) const override {
    default_copy_data(to, from, count);
  }

  /// Opens a scope on the calling thread.
  virtual void open(std::shared_ptr<OpenPoolScopeV1> scope) {
    auto& list = list_of_thread();
    scope->outer = list.first;
    list.first = std::move(scope);
    top_of_thread() = list.first.get();
  }
  /// Closes a scope of this or another thread; scopes may close in any order.
  virtual void close(OpenPoolScopeV1& scope) noexcept {
    scope.is_closed.store(true, std::memory_order_release);
    if (top_of_thread() != nullptr) innermost();
  }

  /// The one below the CPU's counting allocator, or without a counting allocator the CPU's, if it
  /// is a PoolAllocatorV1, of this or another library; else nullptr.
  static PoolAllocatorV1* installed() noexcept {
    auto* counting = CountingAllocatorV2::installed();
    auto* present = counting != nullptr ? &counting->underlying() : c10::GetCPUAllocator();
    return present != nullptr && is_exactly<PoolAllocatorV1>(*present)
               ? static_cast<PoolAllocatorV1*>(present)
               : nullptr;
  }

  /// Installs one unless there is one; returns the one that is installed.
  static PoolAllocatorV1& install() {
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

 private:
  static constexpr auto max_bytes =
      static_cast<std::size_t>(std::numeric_limits<int64_t>::max()) - PoolBlockV1::header_bytes;

  static PoolAllocatorV1& put_below(CountingAllocatorV2& counting) {
    while (true) {
      auto& below = counting.underlying();
      auto* pooling = new PoolAllocatorV1(below);
      if (counting.replace_underlying(below, *pooling)) return *pooling;
      delete pooling;  // another library put something there meanwhile
      if (auto* another = installed()) return *another;
    }
  }

  PoolBlockV1& allocate_outside(std::size_t bytes) {
    return PoolBlockV1::make(underlying_.allocate(bytes + PoolBlockV1::header_bytes), nullptr,
                             bytes, 0);
  }
  static void free_block(void* data) {
    if (data == nullptr) return;
    auto& block = PoolBlockV1::of(data);
    if (block.pool != nullptr) block.pool->free(block);
    else block.free_memory();
  }

  /// The calling thread's scopes. Drops those that were closed since the last call.
  static OpenPoolScopeV1* innermost() noexcept {
    auto*& top = top_of_thread();
    if (top == nullptr || !top->is_closed.load(std::memory_order_acquire)) return top;
    auto& first = list_of_thread().first;
    while (first != nullptr && first->is_closed.load(std::memory_order_acquire)) {
      auto outer = std::move(first->outer);
      first = std::move(outer);
    }
    return top = first.get();
  }
  struct List {
    std::shared_ptr<OpenPoolScopeV1> first;
    ~List() { top_of_thread() = nullptr; }
  };
  static List& list_of_thread() {
    static thread_local List list;
    return list;
  }
  /// The same without a destructor, so that reading it costs no more than an address.
  static OpenPoolScopeV1*& top_of_thread() noexcept {
    static thread_local OpenPoolScopeV1* top = nullptr;
    return top;
  }

  c10::Allocator& underlying_;
};

}  // namespace ikebana::bridge
