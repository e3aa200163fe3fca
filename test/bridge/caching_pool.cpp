// Tests the memory of a pool over an allocator that fails: sizes, limits and lifetimes.
#include "test.hpp"

#include <cstdlib>
#include <ikebana/memory/caching_pool.hpp>
#include <limits>
#include <map>
#include <memory>
#include <thread>

using namespace ikebana;

namespace test::caching_pool {

using ikebana::detail::CachingPool, ikebana::detail::SizeClasses;
using Block = bridge::PoolBlockV1;

/// Counts what is in use, and throws from the allocation `fails_at` on, `fails` times, or if more
/// than `room` bytes would be in use.
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

}  // namespace test::caching_pool
