// Tests memory statistics of accelerators. LibTorch has one interface to them from 2.9 on, from
// which the simulated accelerator derives. Older versions, which count only CUDA's, have their own
// test.
#include <ikebana/memory/scope.hpp>
#include "test.hpp"

#include <ikebana/bridge/memory_facts.hpp>
#include <ikebana/memory/summary.hpp>

using namespace ikebana;

namespace test::device_memory {

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 9

TEST_CASE("memory: the error for an accelerator names it and the LibTorch that counts its memory") {
  const c10::Device device(c10::kPrivateUse1, 1);
  const auto message = test::message_of<Error>([&] { bridge::MemoryCounter counter(device); });
  CHECK(test::contains(message, "does not count the memory of privateuseone:1"));
  CHECK(test::contains(message, "use LibTorch 2.9 or newer"));
}

#else

static_assert(bridge::has_device_statistics);

/// The allocator of a simulated accelerator, with statistics set by the test.
struct FakeDevice : c10::DeviceAllocator {
  bool ready = false;
  c10::CachingDeviceAllocator::DeviceStats stats;
  c10::CachingAllocator::Stat& total() { return stats.allocated_bytes[0]; }

  bool initialized() override { return ready; }
  int emptied = 0;
  void emptyCache(c10::MempoolId_t) override { ++emptied; }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    TORCH_CHECK(ready && index == 1, "not ready, or another device");
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override { total().reset_peak(); }
  c10::DataPtr allocate(std::size_t) override { return {}; }
  void copy_data(void*, const void*, std::size_t) const override {}
};

/// Returns it in the state before its first use. All cases share one, because the library keeps its
/// address.
FakeDevice& fake_device() {
  static FakeDevice allocator;
  c10::SetAllocator(c10::kPrivateUse1, &allocator);
  allocator.ready = false, allocator.emptied = 0, allocator.stats = {};
  return allocator;
}

TEST_CASE("memory: an accelerator's own statistics are read, and each counter keeps its peak") {
  FakeDevice& allocator = fake_device();
  const c10::Device device(c10::kPrivateUse1, 1);
  bridge::MemoryCounter first(device);  // before the first use of the device
  CHECK(first.now() == 0);
  CHECK(first.peak() == 0);
  allocator.ready = true;
  allocator.total().increase(500);
  allocator.total().decrease(400);
  CHECK(first.now() == 100);
  CHECK(first.peak() == 500);
  bridge::MemoryCounter second(device);
  CHECK(second.peak() == 100);
  CHECK(first.peak() == 500);
  allocator.total().increase(50);
  CHECK(second.peak() == 150);
  first.reset_peak();
  allocator.total().decrease(50);
  CHECK(first.peak() == 150);
  first.reset_peak();
  CHECK(first.peak() == 100);
  CHECK(second.peak() == 150);
}

/// One that says how much is free, as LibTorch's do from 2.10 on.
struct WithFree : FakeDevice {
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex index) {
    return {100 + static_cast<std::size_t>(index), 900};
  }
};

TEST_CASE("memory: what an accelerator says besides, and the release of its cache") {
  FakeDevice& allocator = fake_device();
  const c10::Device device(c10::kPrivateUse1, 1);
  CHECK_FALSE(bridge::memory_facts(device).reserved);  // before the first use of the device
  bridge::release_cached_memory(device);
  CHECK(allocator.emptied == 0);
  allocator.ready = true;
  allocator.stats.reserved_bytes[0].increase(2000);
  allocator.stats.inactive_split_bytes[0].increase(300);
  allocator.stats.num_alloc_retries = 4;
  allocator.total().increase(500);
  const MemoryFacts facts = bridge::memory_facts(device);
  CHECK(facts.reserved == 2000);
  CHECK(facts.inactive == 300);
  CHECK(facts.retries == 4);
  CHECK_FALSE(facts.free);  // this one does not say
  CHECK_FALSE(facts.resident);
  const std::string text = memory_summary(device);
  for (const char* line : {"allocated", "500 B", "cached", "1.5 KiB", "reserved", "2.0 KiB",
                           "free within used blocks", "300 B", "emptied 4 times"})
    CHECK(contains(text, line));
  bridge::release_cached_memory(device);
  CHECK(allocator.emptied == 1);

  MemoryFacts of_device;
  WithFree with_free;
  bridge::add_free_of_device(of_device, with_free, 1);
  CHECK(of_device.free == 101);
  CHECK(of_device.total == 900);
}

TEST_CASE("memory scope: on an accelerator it reads the accelerator's own figures") {
  FakeDevice& allocator = fake_device();
  allocator.ready = true;
  allocator.total().increase(100);
  const MemoryScope scope("on a device", c10::Device(c10::kPrivateUse1, 1));
  allocator.total().increase(700);
  allocator.total().decrease(600);
  CHECK(scope.allocated() == 100);
  CHECK(scope.peak() == 700);
  CHECK(scope.text() == "on a device: allocated 100 B, peak 700 B, on privateuseone:1");
}

#endif

}  // namespace test::device_memory
