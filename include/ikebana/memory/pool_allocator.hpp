#pragma once
// Routes what a thread allocates on the CPU to a pool, while a scope is open there: LibTorch's own
// CPU allocator has no pools, so an allocator with pools is put in front of it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ikebana/bridge/counting_allocator.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch.hpp>
#include <limits>
#include <memory>

namespace ikebana::bridge {

class PoolV1;

/// The header in front of each block, which records how to free it. It has 64 bytes, which preserve
/// the block's alignment.
struct PoolBlockV1 {
  PoolV1* pool;  ///< null if the block belongs to no pool
  void* context;
  c10::DeleterFnPtr deleter;  ///< frees `context`, which is this block's memory
  std::size_t bytes;          ///< as they were requested
  PoolBlockV1* next;          ///< the next of the blocks that the pool keeps
  std::uint32_t size_class;

  static constexpr std::size_t header_bytes = 64;
  std::byte* data() noexcept { return reinterpret_cast<std::byte*>(this) + header_bytes; }
  static PoolBlockV1& of(void* data) noexcept;
  /// Writes the header into a block of another allocator.
  static PoolBlockV1& make(c10::DataPtr block, PoolV1* pool, std::size_t bytes,
                           std::uint32_t size_class);
  void free_memory() noexcept { deleter(context); }
};
static_assert(sizeof(PoolBlockV1) <= PoolBlockV1::header_bytes);

/// The pool from which the blocks of a scope come, and to which they return. Both functions may be
/// called on any thread, `free` also after all scopes have closed.
class PoolV1 {
 public:
  /// Returns a block with room for `bytes`, of its own or of `underlying`. Throws if there is no
  /// memory.
  virtual PoolBlockV1& allocate(std::size_t bytes, c10::Allocator& underlying) = 0;
  virtual void free(PoolBlockV1& block) noexcept = 0;

 protected:
  ~PoolV1() = default;
};

/// One open scope of a thread. It is closed by a flag, on any thread; the thread itself then drops
/// it, when it next allocates or ends. So its pool, which it keeps alive, is not in use when it is
/// dropped.
struct OpenPoolScopeV1 {
  std::shared_ptr<PoolV1> pool;
  std::atomic<bool> is_closed{false};
  std::shared_ptr<OpenPoolScopeV1> outer;
};

/// Forwards to the allocator that was installed before, or to the pool of the calling thread's
/// innermost open scope. It is below a CountingAllocatorV2, whichever of the two was installed
/// first, so that bytes are counted as they are requested and not as a pool keeps them. Never
/// destroyed, and not final: see CountingAllocatorV2. Other libraries call it by its virtual
/// functions, so that all of a process share one list of scopes per thread.
class PoolAllocatorV1 : public c10::Allocator {
 public:
  explicit PoolAllocatorV1(c10::Allocator& underlying) : underlying_(underlying) {}

  IKEBANA_INLINE c10::DataPtr allocate(std::size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  IKEBANA_INLINE void copy_data(void* to, const void* from, std::size_t count) const override;

  /// Opens a scope on the calling thread.
  IKEBANA_INLINE virtual void open(std::shared_ptr<OpenPoolScopeV1> scope);
  /// Closes a scope of this or another thread; scopes may close in any order.
  IKEBANA_INLINE virtual void close(OpenPoolScopeV1& scope) noexcept;

  /// Returns the allocator below the CPU's counting allocator, or without one the CPU's allocator,
  /// if it is a PoolAllocatorV1 of this or another library; otherwise null.
  static PoolAllocatorV1* installed() noexcept;

  /// Installs a pool allocator unless there is one; returns the one that is installed.
  static PoolAllocatorV1& install();

 private:
  static constexpr auto max_bytes =
      static_cast<std::size_t>(std::numeric_limits<int64_t>::max()) - PoolBlockV1::header_bytes;

  static PoolAllocatorV1& put_below(CountingAllocatorV2& counting);

  PoolBlockV1& allocate_outside(std::size_t bytes);
  static void free_block(void* data);

  /// Returns the calling thread's innermost open scope, or null. Drops scopes that were closed
  /// since the last call.
  static OpenPoolScopeV1* innermost() noexcept;
  struct List {
    std::shared_ptr<OpenPoolScopeV1> first;
    ~List() { top_of_thread() = nullptr; }
  };
  static List& list_of_thread();
  /// Returns the first of the thread's list. The list has no destructor, so that reading it costs
  /// no more than reading an address.
  static OpenPoolScopeV1*& top_of_thread() noexcept;

  c10::Allocator& underlying_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/pool_allocator.ipp>
#endif
