// Tests the counting allocator of the CPU, and MemoryCounter.
#include "test.hpp"

#include <c10/core/CPUAllocator.h>
#include <cstdint>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/version.hpp>
#include <limits>
#include <memory>
#include <thread>

using namespace ikebana;

namespace test::memory {

const c10::Device cpu(c10::kCPU);
at::Tensor bytes(int64_t count) { return torch::empty({count}, torch::kUInt8); }

/// Counts bytes relative to the bytes at its construction.
struct Since {
  bridge::MemoryCounter counter{cpu};
  int64_t start = counter.now();
  int64_t now() const { return counter.now() - start; }
  int64_t peak() const { return counter.peak() - start; }
};

TEST_CASE("memory: exactly the requested bytes are counted, until they are freed") {
  Since since;
  for (int64_t size : {1, 63, 64, 65, 4096, 1 << 20}) {
    auto t = bytes(size);
    CHECK(since.now() == size);
    CHECK(bridge::counted(t));
    t = at::Tensor();
    CHECK(since.now() == 0);
  }
  auto matrix = torch::empty({10, 7}, torch::kDouble);
  CHECK(since.now() == 560);
  auto view = matrix.t();
  CHECK(since.now() == 560);
  CHECK(bridge::counted(view));
}

TEST_CASE("memory: blocks have the alignment of LibTorch's own") {
  bridge::MemoryCounter counter(cpu);
  for (int64_t size = 1; size < 5000; size += 37)
    CHECK(reinterpret_cast<std::uintptr_t>(bytes(size).data_ptr()) % 64 == 0);
}

TEST_CASE("memory: the peak is the most since the last reset, for each counter") {
  Since since;
  bytes(5000);
  CHECK(since.peak() == 5000);
  bridge::MemoryCounter second(cpu);
  auto kept = bytes(1000);
  CHECK(second.peak() - since.start == 1000);  // made after the 5000 were freed
  CHECK(since.peak() == 5000);
  since.counter.reset_peak();
  CHECK(since.peak() == 1000);
  bytes(3000);
  CHECK(since.peak() == 4000);
  second.reset_peak();
  CHECK(second.peak() - since.start == 1000);
  CHECK(since.peak() == 4000);  // the reset of another counter changes nothing
  const auto copy = since.counter;
  bytes(7000);
  CHECK(copy.peak() == since.counter.peak());
}

TEST_CASE("memory: tensors without bytes or with memory of another owner are not counted") {
  std::vector<float> values(8);
  Since since;
  auto foreign = torch::from_blob(values.data(), {8});
  CHECK(since.now() == 0);
  CHECK_FALSE(bridge::counted(foreign));
  CHECK_FALSE(bridge::counted(at::Tensor()));
  CHECK_FALSE(bridge::counted(torch::empty({0})));
  CHECK_FALSE(bridge::counted(torch::empty({3}, torch::kMeta)));
  CHECK_FALSE(bridge::counted(torch::eye(3).to_sparse()));
  auto copy = foreign.clone();
  CHECK(since.now() == 32);
  CHECK(bridge::counted(copy));
}

TEST_CASE("memory: the bytes of a storage that grows or shrinks are counted") {
  Since since;
  auto t = bytes(100);
  t.resize_({400});
  CHECK(since.now() == 400);
  CHECK(since.peak() == 500);  // both exist during the copy
  t.resize_({10});
  CHECK(since.now() == 400);  // LibTorch does not shrink the storage
  t.storage().unsafeGetStorageImpl()->set_data_ptr(at::DataPtr());
  CHECK(since.now() == 0);
}

TEST_CASE("memory: the allocator fulfils LibTorch's contract") {
  Since since;
  auto* allocator = c10::GetCPUAllocator();
  REQUIRE((allocator->raw_deleter() != nullptr));
  auto* raw = allocator->raw_allocate(100);
  CHECK(since.now() == 100);
  allocator->raw_deallocate(raw);
  CHECK(since.now() == 0);

  auto block = allocator->allocate(64);
  CHECK(block.get() == block.get_context());
  CHECK((block.get_deleter() == allocator->raw_deleter()));
  CHECK(allocator->is_simple_data_ptr(block));
  CHECK(block.device() == cpu);
  std::memset(block.get(), 7, 64);
  auto clone = allocator->clone(block.get(), 64);
  CHECK(std::memcmp(block.get(), clone.get(), 64) == 0);
  CHECK(since.now() == 128);

  auto nothing = allocator->allocate(0);
  CHECK(nothing.get() == nullptr);
  CHECK((nothing.get_deleter() == allocator->raw_deleter()));
  allocator->raw_deallocate(allocator->raw_allocate(0));
  CHECK(since.now() == 128);
}

TEST_CASE("memory: an allocation that fails throws LibTorch's error and counts nothing") {
  struct Full : c10::Allocator {
    c10::DataPtr allocate(std::size_t size) override { TORCH_CHECK(false, "no room for ", size); }
    void copy_data(void*, const void*, std::size_t) const override {}
  } full;
  bridge::CountingAllocatorV2 counting(full);
  auto allocate = [&](std::size_t size) {
    return test::message_of<c10::Error>([&] { counting.allocate(size); });
  };
  CHECK(test::contains(allocate(100), "no room for 164"));
  const auto max = std::numeric_limits<std::size_t>::max();  // no room for 64 more in a size_t
  CHECK(test::contains(allocate(max), "no room for " + std::to_string(max)));
  CHECK(counting.now() == 0);
}

TEST_CASE("memory: a lazy clone costs nothing until it is written to") {
  Since since;
  auto t = torch::zeros({256}, torch::kUInt8);
  auto lazy = at::_lazy_clone(t);
  CHECK(since.now() == 256);
  lazy.add_(1);
  CHECK(since.now() == 512);
  CHECK(t.sum().item<int64_t>() == 0);
  CHECK(lazy.sum().item<int64_t>() == 256);
}

TEST_CASE("memory: another thread may free what one thread allocated") {
  Since since;
  std::vector<at::Tensor> allocated;
  std::thread([&] {
    for (int i = 0; i < 100; ++i) allocated.push_back(bytes(1000));
  }).join();
  CHECK(since.now() == 100 * 1000);
  std::thread([&] { allocated.clear(); }).join();
  CHECK(since.now() == 0);
  CHECK(since.peak() == 100 * 1000);
}

TEST_CASE("memory: counts are exact with four threads") {
  constexpr int threads = 4, rounds = 10000;
  Since since;
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([t] {
      std::vector<at::DataPtr> held(8);
      for (int i = 0; i < rounds; ++i)
        held[static_cast<std::size_t>(i % 8)] =
            c10::GetCPUAllocator()->allocate(static_cast<std::size_t>(1 + (i * 31 + t) % 999));
    });
  for (int i = 0; i < 100; ++i) {
    bridge::MemoryCounter other(cpu);
    other.reset_peak();
    CHECK(other.peak() >= since.start);
  }
  for (auto& thread : running) thread.join();
  CHECK(since.now() == 0);
  CHECK(since.peak() > 0);
  CHECK(since.peak() <= threads * 9 * 999);
}

TEST_CASE("memory: all counters share one allocator") {
  bridge::MemoryCounter first(cpu);
  auto* allocator = c10::GetCPUAllocator();
  bridge::MemoryCounter second(cpu);
  CHECK(c10::GetCPUAllocator() == allocator);
  auto t = bytes(10);
  CHECK(first.now() == second.now());
}

TEST_CASE("memory: the error for a device without statistics names it") {
  const c10::Device meta(c10::kMeta);
  const auto message = test::message_of<Error>([&] { bridge::MemoryCounter counter(meta); });
  CHECK(test::contains(message, "does not count the memory of meta"));
}

TEST_CASE("version: the oldest LibTorch that is supported, or a newer one") {
  static_assert(bridge::libtorch_version >= 208);
  static_assert(bridge::has_device_statistics || bridge::libtorch_version < 209);
  bridge::NodePointer node = torch::ones({1}).requires_grad_().exp().grad_fn();
  CHECK(node->num_inputs() == 1);
}

}  // namespace test::memory
