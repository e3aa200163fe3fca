// MemPool: what its scope changes, and what it does not.
#include "test.hpp"

#include <c10/core/CPUAllocator.h>
#include <ikebana/bridge/memory.hpp>
#include <ikebana/memory/pool.hpp>
#include <optional>

using namespace ikebana;

namespace test::pool {

at::Tensor bytes(std::int64_t count) { return at::empty({count}, at::kByte); }

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
    auto* first = counts_first ? &bridge::CountingAllocatorV2::install() : nullptr;
    auto& pooling = bridge::PoolAllocatorV1::install();
    auto& counting = bridge::CountingAllocatorV2::install();
    if (counts_first) CHECK(first == &counting);
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
