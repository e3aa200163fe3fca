// Tests MemPool: what its scope changes, and what it does not.
#include "test.hpp"

#include <c10/core/CPUAllocator.h>
#include <ikebana.hpp>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/memory/pool.hpp>
#include <optional>
#include <thread>

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

namespace test::pool_scopes {

at::Tensor bytes(std::int64_t count) { return at::empty({count}, at::kByte); }

TEST_CASE("pool: the innermost scope of a thread holds, and scopes end in any order") {
  MemPool a, b;
  auto outer = std::make_unique<UseMemPool>(a);
  auto inner = std::make_unique<UseMemPool>(b);
  bytes(1000);
  CHECK(b.misses() == 1);
  outer.reset();
  bytes(1000);
  CHECK(b.hits() == 1);
  inner.reset();
  bytes(1000);
  CHECK(a.misses() == 0);
  CHECK(b.hits() == 1);
  {
    UseMemPool one(a);
    try {
      UseMemPool two(b);
      throw std::runtime_error("left");
    } catch (const std::runtime_error&) {
    }
    bytes(1000);
  }
  CHECK(a.misses() == 1);
}

TEST_CASE("pool: a scope is of the thread that made it, and its tensors of all threads") {
  MemPool pool;
  UseMemPool use(pool);
  std::thread([] { bytes(1000); }).join();
  CHECK(pool.misses() == 0);
  auto kept = bytes(1000);
  std::thread([&] { kept = at::Tensor(); }).join();
  CHECK(pool.allocated() == 0);
  bytes(1000);
  CHECK(pool.hits() == 1);
}

TEST_CASE("pool: a scope that another thread destroys ends, and its pool may end before it") {
  auto pool = std::make_unique<MemPool>();
  auto use = std::make_unique<UseMemPool>(*pool);
  bytes(1000);
  std::thread([&] { use.reset(); }).join();
  bytes(1000);
  CHECK(pool->hits() == 0);
  use = std::make_unique<UseMemPool>(*pool);
  auto kept = bytes(1000).fill_(3);
  CHECK(pool->hits() == 1);
  pool.reset();
  kept = at::cat({kept, bytes(3000).fill_(4)});
  CHECK(kept.sum().item<std::int64_t>() == 3 * 1000 + 4 * 3000);
  use.reset();
  CHECK(kept.sum().item<std::int64_t>() == 3 * 1000 + 4 * 3000);
}

TEST_CASE("pool: a thread may end with a scope of it open, which is then destroyed elsewhere") {
  MemPool pool;
  std::unique_ptr<UseMemPool> use;
  std::thread([&] {
    use = std::make_unique<UseMemPool>(pool);
    bytes(1000);
  }).join();
  CHECK(pool.misses() == 1);
  use.reset();
  bytes(1000);
  CHECK(pool.hits() == 0);
}

TEST_CASE("pool: several threads share one, and free what others allocated") {
  constexpr std::size_t threads = 4, rounds = 3000, slots = 16;
  MemPool pool({.limit = MiB(64)});
  std::array<std::atomic<c10::StorageImpl*>, slots> shared{};
  std::vector<std::thread> running;
  std::atomic<int> wrong{0};
  for (std::size_t t = 0; t < threads; ++t)
    running.emplace_back([&, t] {
      UseMemPool use(pool);
      for (std::size_t i = 0; i < rounds; ++i) {
        const std::size_t size = 1 + (i * 7919 + t * 104729) % 5000;
        auto* mine = new c10::StorageImpl({}, static_cast<std::int64_t>(size),
                                          c10::GetCPUAllocator(), false);
        std::memset(mine->mutable_data(), static_cast<int>(size % 251), size);
        auto* other = shared[(i + t) % slots].exchange(mine);
        if (other == nullptr) continue;
        const auto* data = static_cast<const std::uint8_t*>(other->data());
        const auto expected = static_cast<std::uint8_t>(other->nbytes() % 251);
        wrong += data[0] != expected || data[other->nbytes() - 1] != expected;
        delete other;
      }
    });
  for (auto& thread : running) thread.join();
  for (auto& slot : shared) delete slot.load();
  CHECK(wrong == 0);
  CHECK(pool.allocated() == 0);
  CHECK(pool.hits() + pool.misses() == threads * rounds);
  CHECK(pool.trim() > 0);
  CHECK(pool.reserved() == 0);
}

struct NetImpl : torch::nn::Module {
  torch::nn::Linear in{register_module("in", torch::nn::Linear(16, 32))};
  torch::nn::Linear out{register_module("out", torch::nn::Linear(32, 4))};
  template <class Run>
  Loss loss(Run&, const std::pair<at::Tensor, at::Tensor>& batch) {
    auto y = out(at::gelu(in(batch.first)));
    return {.sum = at::mse_loss(y, batch.second, at::Reduction::Sum), .count = batch.first.size(0)};
  }
};
TORCH_MODULE(Net);

auto new_trainer() {
  torch::manual_seed(0);
  return Trainer{Net(), AdamW{.lr = 1e-2}, ClipGradNorm{}};
}
auto new_batch() {
  torch::manual_seed(1);
  return std::pair{at::randn({8, 16}), at::randn({8, 4})};
}

TEST_CASE("pool: training within one has the same losses, and soon needs no new memory") {
  const auto batch = new_batch();
  auto plain = new_trainer(), pooled = new_trainer();
  MemPool pool;
  std::uint64_t misses = 0;
  for (int step = 0; step < 6; ++step) {
    const double loss = plain.step(batch).loss();
    UseMemPool use(pool);
    misses = pool.misses();
    CHECK(pooled.step(batch).loss() == loss);
  }
  CHECK(misses > 10);
  CHECK(pool.misses() == misses);
}

/// Fails one allocation, counted from when it was armed.
struct Failing : c10::Allocator {
  explicit Failing(c10::Allocator& allocator) : below(allocator) {}
  c10::DataPtr allocate(std::size_t count) override {
    TORCH_CHECK(left < 0 || left-- != 0, "DefaultCPUAllocator: can't allocate memory");
    return below.allocate(count);
  }
  void copy_data(void*, const void*, std::size_t) const override {}
  c10::Allocator& below;
  int left = -1;
};

TEST_CASE("pool: a step of which any allocation fails is undone, and the next trains on") {
  auto& counting = bridge::CountingAllocatorV2::install();
  auto& below = counting.underlying();
  static auto& failing = *new Failing(*c10::GetDefaultCPUAllocator());
  const auto batch = new_batch();
  auto reference = new_trainer();
  const double first = reference.step(batch).loss(), second = reference.step(batch).loss();
  static auto& pooling = *new bridge::PoolAllocatorV1(failing);
  REQUIRE(counting.replace_underlying(below, pooling));
  int failed = 0, made_up_for = 0;
  for (bool has_fired = true; has_fired;) {
    auto trainer = new_trainer();
    MemPool pool;
    UseMemPool use(pool);
    failing.left = failed + made_up_for;
    double loss = 0;
    const auto text = test::message_of([&] { loss = trainer.step(batch).loss(); });
    has_fired = failing.left < 0;
    failing.left = -1;
    if (has_fired) ++(text.empty() ? made_up_for : failed);
    if (!text.empty()) loss = trainer.step(batch).loss();
    CHECK(loss == first);
    CHECK(trainer.step(batch).loss() == second);
  }
  REQUIRE(counting.replace_underlying(pooling, below));
  CHECK(failed > 5);
  CHECK(made_up_for > 5);
}

}  // namespace test::pool_scopes
