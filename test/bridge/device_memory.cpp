// LibTorch has one interface to every accelerator's memory from 2.9 on. What stands in for an
// accelerator here derives from it, so the two versions cannot share these tests.
#include "test.hpp"

#include <ikebana/bridge/memory.hpp>

using namespace ikebana;

namespace test::device_memory {

#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 9

TEST_CASE("memory: an accelerator is refused by name, with the LibTorch that counts its memory") {
  static_assert(!bridge::has_device_statistics);
  const c10::Device device(c10::kPrivateUse1, 1);
  const auto said = test::message_of<Error>([&] { bridge::MemoryCounter counter(device); });
  CHECK(test::contains(said, "does not count the memory of privateuseone:1"));
  CHECK(test::contains(said, "use LibTorch 2.9 or newer"));
}

#else

static_assert(bridge::has_device_statistics);

/// An accelerator's allocator without an accelerator: its statistics are set by hand.
struct DeviceOnPaper : c10::DeviceAllocator {
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
  static DeviceOnPaper allocator;
  c10::SetAllocator(c10::kPrivateUse1, &allocator);
  const c10::Device device(c10::kPrivateUse1, 1);
  bridge::MemoryCounter first(device);  // before the device was ever used
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
