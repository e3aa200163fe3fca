// MemPool: what its blocks are, where they come from and when they are released.
#include "test.hpp"

#include <ikebana/bridge/memory.hpp>
#include <ikebana/memory/pool.hpp>
#include <map>
#include <memory>
#include <set>
#include <thread>

using namespace ikebana;

namespace test::pool {

using ikebana::detail::CachingPool, ikebana::detail::SizeClasses;
using Block = bridge::PoolBlockV1;

at::Tensor bytes(std::int64_t count) { return at::empty({count}, at::kByte); }

/// Counts what is in use, and throws from the allocation `fails_at` on, `fails` times, or where
/// more than `room` bytes would be in use.
struct Underlying : c10::Allocator {
  std::size_t room = std::numeric_limits<std::size_t>::max(), in_use = 0;
  int calls = 0, fails_at = -1, fails = 1;
  std::map<void*, std::size_t> sizes;

  c10::DataPtr allocate(std::size_t count) override {
    const int call = calls++;
    TORCH_CHECK(fails_at < 0 || call < fails_at || call >= fails_at + fails, "no room for ", count);
    TORCH_CHECK(count <= room - in_use, "no room for ", count);
    void* memory = std::aligned_alloc(64, (count + 63) / 64 * 64);
    in_use += sizes[memory] = count;
    of()[memory] = this;
    return {memory, memory, &free, c10::kCPU};
  }
  void copy_data(void*, const void*, std::size_t) const override {}
  static void free(void* memory) {
    Underlying& self = *of().at(memory);
    self.in_use -= self.sizes.at(memory);
    self.sizes.erase(memory), of().erase(memory);
    std::free(memory);
  }
  static std::map<void*, Underlying*>& of() {
    static std::map<void*, Underlying*> all;
    return all;
  }
};

TEST_CASE("pool: a size class has room, is an eighth larger at most, and classes do not overlap") {
  std::uint32_t last = 0;
  for (std::size_t n = 1; n < (std::size_t{1} << 40); n += 1 + n / 97) {
    const std::uint32_t at = SizeClasses::of(n);
    REQUIRE(at < SizeClasses::count);
    const std::size_t size = SizeClasses::size(at);
    CHECK(size >= n);
    CHECK(size <= std::max<std::size_t>({128, n + 63, n + n / 8 + 64}));
    CHECK(SizeClasses::of(size) == at);
    CHECK(at >= last);
    if (at > 0) CHECK(SizeClasses::size(at - 1) < (n + 63) / 64 * 64);
    last = at;
  }
  CHECK(SizeClasses::of((std::size_t{1} << 40) + 1) == SizeClasses::none);
}

TEST_CASE("pool: within the scope memory is kept and used again, outside of it is not the pool's") {
  MemPool pool;
  void* first = nullptr;
  {
    UseMemPool use(pool);
    first = bytes(100000).data_ptr();
    CHECK(bytes(100000).data_ptr() == first);
    CHECK(bytes(90000).data_ptr() == first);  // at most a third smaller
    const auto other = bytes(20000);
    CHECK(other.data_ptr() != first);
    CHECK(pool.hits() == 2);
    CHECK(pool.misses() == 2);
    CHECK(pool.allocated() >= 20000);
    CHECK(pool.allocated() <= 20064);
  }
  CHECK(pool.allocated() == 0);
  CHECK(pool.reserved() >= 120000);
  const auto outside = bytes(100000);
  CHECK(outside.data_ptr() != first);
  CHECK(pool.hits() + pool.misses() == 4);
  const auto kept = pool.reserved();
  CHECK(pool.trim() == kept);
  CHECK(pool.reserved() == 0);
  CHECK(pool.trim() == 0);
}

TEST_CASE("pool: blocks are aligned, hold what they were asked for, and do not overlap") {
  MemPool pool;
  UseMemPool use(pool);
  for (int round = 0; round < 2; ++round) {
    std::vector<at::Tensor> all;
    for (std::int64_t size = 1; size < 300000; size += 1 + size / 3) {
      all.push_back(bytes(size).fill_(static_cast<int>(all.size())));
      CHECK(reinterpret_cast<std::uintptr_t>(all.back().data_ptr()) % 64 == 0);
    }
    for (std::size_t i = 0; i < all.size(); ++i)
      CHECK(all[i].eq(static_cast<int>(i)).all().item<bool>());
  }
  CHECK(pool.hits() >= 30);
}

TEST_CASE("pool: the same bytes are counted and limited with a pool and without") {
  bridge::MemoryCounter counter(at::kCPU);
  auto used = [&] {
    counter.reset_peak();
    const auto before = counter.now();
    std::vector<std::int64_t> all;
    auto a = bytes(1000), b = bytes(70000);
    all.push_back(counter.now() - before);
    a.resize_({5000}), b = at::Tensor();
    all.push_back(counter.now() - before);
    all.push_back(counter.peak() - before);
    CHECK(bridge::counted(a));
    const bridge::MemoryLimit limit(counter.now() + 4096);
    bytes(4096);
    const auto text = test::message_of<OutOfMemory>([&] { bytes(4097); });
    CHECK(test::contains(text, "4097 bytes were requested"));
    return all;
  };
  const auto without = used();
  MemPool pool;
  UseMemPool use(pool);
  CHECK(used() == without);
  CHECK(used() == without);  // from kept blocks
  CHECK(pool.hits() > 0);
}

/// RAII: LibTorch's own allocator, then the one that was installed before.
struct FreshAllocators {
  c10::Allocator* before = c10::GetCPUAllocator();
  FreshAllocators() { c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 255); }
  ~FreshAllocators() { c10::SetCPUAllocator(before, 255); }
};

TEST_CASE("pool: whichever allocator comes first, the counting one is in front") {
  for (const bool counts_first : {true, false}) {
    FreshAllocators fresh;
    if (counts_first) bridge::CountingAllocatorV2::install();
    auto& pooling = bridge::PoolAllocatorV1::install();
    auto& counting = bridge::CountingAllocatorV2::install();
    CHECK(c10::GetCPUAllocator() == &counting);
    CHECK(&counting.underlying() == &pooling);
    CHECK(&bridge::PoolAllocatorV1::install() == &pooling);
    CHECK(bridge::PoolAllocatorV1::installed() == &pooling);
    MemPool pool;
    at::Tensor kept;
    {
      UseMemPool use(pool);
      kept = bytes(1000);
      CHECK(counting.now() == 1000);
      CHECK(pool.allocated() == 1064);
    }
    kept = at::Tensor();
    CHECK(counting.now() == 0);
    CHECK(pool.allocated() == 0);
  }
}

TEST_CASE("pool: without a counting allocator it fulfils LibTorch's contract") {
  FreshAllocators fresh;
  MemPool pool;
  for (const bool within : {false, true}) {
    std::optional<UseMemPool> use;
    if (within) use.emplace(pool);
    auto* allocator = c10::GetCPUAllocator();
    auto* raw = allocator->raw_allocate(100);
    CHECK(pool.allocated() == (within ? 100 : 0));
    allocator->raw_deallocate(raw);
    auto block = allocator->allocate(64);
    CHECK(block.get() == block.get_context());
    CHECK((block.get_deleter() == allocator->raw_deleter()));
    CHECK(allocator->is_simple_data_ptr(block));
    std::memset(block.get(), 7, 64);
    auto clone = allocator->clone(block.get(), 64);
    CHECK(std::memcmp(block.get(), clone.get(), 64) == 0);
    CHECK(allocator->allocate(0).get() == nullptr);
    allocator->raw_deallocate(allocator->raw_allocate(0));
  }
  CHECK(pool.allocated() == 0);
}

TEST_CASE("pool: blocks outlast the scope and the pool, and then all memory is released") {
  Underlying underlying;
  for (const bool block_first : {true, false}) {
    auto pool = CachingPool::make(1 << 30);
    Block &kept = pool->allocate(5000, underlying), &freed = pool->allocate(700, underlying);
    pool->free(freed);
    std::memset(kept.data(), 1, 5000);
    CHECK(underlying.in_use == pool->counts().reserved);
    if (block_first) kept.pool->free(kept), pool.reset();
    else {
      pool.reset();
      CHECK(underlying.in_use == SizeClasses::size(kept.size_class));
      std::memset(kept.data(), 2, 5000);
      std::thread([&] { kept.pool->free(kept); }).join();
    }
    CHECK(underlying.in_use == 0);
  }
}

TEST_CASE("pool: beyond the limit kept memory makes room, and then the error says all") {
  Underlying underlying;
  auto pool = CachingPool::make(100000);
  Block& a = pool->allocate(50000, underlying);
  Block& b = pool->allocate(20000, underlying);
  pool->free(b);
  CHECK(pool->counts().reserved > 70000);
  Block& c = pool->allocate(40000, underlying);  // b's memory had to be released
  CHECK(pool->counts().reserved == underlying.in_use);
  CHECK(pool->counts().reserved <= 100000);
  const auto before = pool->counts();
  const auto text = test::message_of<OutOfMemory>([&] { pool->allocate(30000, underlying); });
  CHECK(test::contains(text, "30000 bytes were requested, 90000 are in use"));
  CHECK(test::contains(text, "the limit of this pool is 100000"));
  CHECK(test::contains(text, "Raise MemPoolOptions::limit"));
  CHECK(pool->counts().allocated == before.allocated);
  CHECK(pool->counts().reserved == before.reserved);
  CHECK(pool->counts().misses == before.misses);
  pool->free(a), pool->free(c);
  pool->free(pool->allocate(95000, underlying));
  CHECK_THROWS_AS(CachingPool::make(0)->allocate(1, underlying), OutOfMemory);
}

TEST_CASE("pool: where memory is short it releases what it keeps and tries again") {
  Underlying underlying;
  auto pool = CachingPool::make(std::numeric_limits<std::size_t>::max());
  pool->free(pool->allocate(60000, underlying));
  underlying.room = 70000;
  Block& other = pool->allocate(20000, underlying);
  CHECK(underlying.in_use == pool->counts().reserved);
  CHECK(underlying.in_use < 25000);
  const auto text = test::message_of<c10::Error>([&] { pool->allocate(64000, underlying); });
  CHECK(test::contains(text, "no room for"));
  CHECK(pool->counts().allocated == 20000);
  CHECK(underlying.in_use == pool->counts().reserved);
  pool->free(other);
}

TEST_CASE("pool: each allocation that fails is made up for or leaves everything as it was") {
  auto work = [](CachingPool& pool, Underlying& underlying) {
    std::vector<Block*> blocks;
    try {
      for (std::size_t i = 0; i < 12; ++i) {
        blocks.push_back(&pool.allocate(1000 << i % 5, underlying));
        if (i % 4 == 3) pool.free(*blocks.back()), blocks.pop_back();
      }
    } catch (...) {
      for (Block* block : blocks) pool.free(*block);
      throw;
    }
    for (Block* block : blocks) pool.free(*block);
  };
  Underlying whole;
  const auto reference = CachingPool::make(1 << 30);
  work(*reference, whole);
  REQUIRE(whole.calls >= 8);
  int thrown = 0;
  for (int fails : {1, 2})
    for (int at = 0; at < whole.calls; ++at) {
      Underlying underlying;
      underlying.fails_at = at, underlying.fails = fails;
      auto pool = CachingPool::make(1 << 30);
      const bool throws = !test::message_of([&] { work(*pool, underlying); }).empty();
      thrown += throws;
      if (fails == 2) CHECK(throws);
      CHECK(pool->counts().allocated == 0);
      CHECK(pool->counts().blocks == 0);
      CHECK(pool->counts().reserved == underlying.in_use);
      underlying.fails_at = -1;
      work(*pool, underlying);
      pool.reset();
      CHECK(underlying.in_use == 0);
    }
  CHECK(thrown > whole.calls);
  CHECK(thrown < 2 * whole.calls);  // some were made up for
}

TEST_CASE("pool: a limit that is negative, and a scope for another device, are errors") {
  CHECK(test::contains(test::message_of<BadValue>([] { MemPool pool({.limit = -1}); }),
                       "MemPool: limit is -1 bytes"));
  MemPool pool;
  UseMemPool use(pool, at::kCPU);
  const auto text =
      test::message_of<BadValue>([&] { UseMemPool other(pool, c10::Device("cuda:0")); });
  CHECK(test::contains(text, "the scope is for cuda:0"));
  CHECK(test::contains(text, "DeviceMemPool"));
}

}  // namespace test::pool
