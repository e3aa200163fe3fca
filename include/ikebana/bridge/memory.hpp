#pragma once
// Bytes now and at the peak.

#include <cstdint>
#include <ikebana/bridge/counting_allocator.hpp>
#include <ikebana/bridge/device.hpp>
#include <ikebana/bridge/version.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <memory>
#include <mutex>
#include <type_traits>
#include <unordered_map>

namespace ikebana::bridge {

/// An accelerator's own statistics, through LibTorch's interface to all of them.
template <class Allocator>
class DeviceMemory final : public MemorySource {
 public:
  DeviceMemory(Allocator& allocator, c10::DeviceIndex index)
      : allocator_(allocator), index_(index) {}
  int64_t now() override { return allocated().current; }

 private:
  int64_t highest() override { return allocated().peak; }
  int64_t restart() override {
    const auto until_now = highest();
    if (allocator_.initialized()) allocator_.resetPeakStats(index_);
    return until_now;
  }
  auto allocated() {
    auto bytes = decltype(allocator_.getDeviceStats(index_).allocated_bytes){};
    if (allocator_.initialized()) bytes = allocator_.getDeviceStats(index_).allocated_bytes;
    return bytes[0];
  }

  Allocator& allocator_;
  c10::DeviceIndex index_;
};

/// Null where LibTorch has no statistics of this device.
template <class Type>
std::unique_ptr<MemorySource> make_device_memory(Type type, c10::DeviceIndex index) {
  if constexpr (has_device_statistics) {
    try {
      auto& allocator = *getDeviceAllocator(type);
      return std::make_unique<DeviceMemory<std::remove_reference_t<decltype(allocator)>>>(allocator,
                                                                                          index);
    } catch (const c10::Error&) {
    }
  }
  return nullptr;
}

/// The one source of `device` in this library. Throws ikebana::Error where nothing counts its
/// memory.
inline MemorySource& memory_source(c10::Device device) {
  if (device.is_cpu()) return CountingAllocatorV1::install();
  static std::mutex mutex;
  static auto& sources = *new std::unordered_map<c10::Device, std::unique_ptr<MemorySource>>;
  std::lock_guard lock(mutex);
  auto& source = sources[device];
  if (!source) source = make_device_memory(device.type(), device.index());
  if (!source)
    throw Error("MemoryCounter: this LibTorch does not count the memory of " + device.str() +
                ". Count on the CPU, or use LibTorch 2.9 or newer with an accelerator.");
  return *source;
}

/// Bytes in use now and at the peak on one device, of all threads and trainers of the process. On
/// the CPU the first counter puts a counting allocator in front of the present one for good: make
/// it before other threads allocate. From then on each allocation costs some tens of nanoseconds
/// and 64 bytes more, and exactly what was asked for through LibTorch is counted; scratch memory
/// inside MKL and oneDNN is not. On accelerators these are LibTorch's own statistics, in whole
/// blocks of its cache; whoever resets their peak without a counter resets it for all. Copies share
/// one peak. Throws ikebana::Error where nothing counts the device's memory.
class MemoryCounter {
 public:
  explicit MemoryCounter(c10::Device device)
      : watch_(std::make_shared<Attached>(memory_source(with_index(device)))) {}

  /// Bytes; on the CPU without what was allocated before the first counter (see `counted`).
  int64_t now() const { return watch_->source.now(); }
  /// The most bytes since this counter was made or its peak was last reset.
  int64_t peak() const { return watch_->source.peak(watch_->watch); }
  void reset_peak() { watch_->source.reset_peak(watch_->watch); }

 private:
  struct Attached {
    explicit Attached(MemorySource& from) : source(from) { source.attach(watch); }
    ~Attached() { source.detach(watch); }
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;
    MemorySource& source;
    MemorySource::Watch watch;
  };

  std::shared_ptr<Attached> watch_;
};

/// True where a MemoryCounter of the tensor's device sees its bytes; false on the CPU for what was
/// allocated before the first counter or by somebody else (`from_blob`), and where there are no
/// bytes. Costs a look-up.
inline bool counted(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || tensor.storage().nbytes() == 0) return false;
  if (!tensor.device().is_cpu()) return !tensor.is_meta();
  const auto* present = CountingAllocatorV1::installed();
  return present != nullptr && tensor.storage().data_ptr().get_deleter() == present->raw_deleter();
}

}  // namespace ikebana::bridge
