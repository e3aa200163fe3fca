// Memory statistics of accelerators. LibTorch has one interface to them from 2.9 on, from which the
// simulated accelerator derives. Older versions, which count CUDA's alone, have their own test.
#include "test.hpp"

#include <ikebana/bridge/memory.hpp>

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
  void emptyCache(c10::MempoolId_t) override {}
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

TEST_CASE("memory: an accelerator's own statistics are read, and each counter keeps its peak") {
  static FakeDevice allocator;
  c10::SetAllocator(c10::kPrivateUse1, &allocator);
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

#endif

}  // namespace test::device_memory
