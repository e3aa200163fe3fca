#pragma once
// Counts the memory of a device: bytes in use now, and at the peak.

#include <concepts>
#include <cstdint>
#include <ikebana/bridge/counting_allocator.hpp>
#include <ikebana/bridge/device.hpp>
#include <ikebana/bridge/version.hpp>
#include <ikebana/error.hpp>
#include <memory>
#include <type_traits>

namespace ikebana::bridge {

/// An accelerator's own statistics, read through LibTorch's interface to all accelerators.
template <class Allocator>
class DeviceMemory final : public MemorySource {
 public:
  DeviceMemory(Allocator& allocator, c10::DeviceIndex index)
      : allocator_(allocator), index_(index) {}
  int64_t now() override { return allocated().current; }

 private:
  int64_t peak_since_restart() override { return allocated().peak; }
  int64_t restart_peak() override {
    const auto peak_so_far = peak_since_restart();
    if (allocator_.initialized()) allocator_.resetPeakStats(index_);
    return peak_so_far;
  }
  auto allocated() {
    auto bytes = decltype(allocator_.getDeviceStats(index_).allocated_bytes){};
    if (allocator_.initialized()) bytes = allocator_.getDeviceStats(index_).allocated_bytes;
    return bytes[0];
  }

  Allocator& allocator_;
  c10::DeviceIndex index_;
};

/// Returns null if LibTorch has no memory statistics for this device.
template <class Type>
std::unique_ptr<MemorySource> make_device_memory(Type type, c10::DeviceIndex index) {
  if constexpr (has_device_statistics) {
    try {
      if (auto* allocator = device_allocator(type))
        return std::make_unique<DeviceMemory<std::remove_reference_t<decltype(*allocator)>>>(
            *allocator, index);
    } catch (const c10::Error&) {
    }
  }
  return nullptr;
}

/// Sources that count in place of the allocators, for a thread that computes without values.
class MemorySources {
 public:
  virtual ~MemorySources() = default;
  virtual MemorySource& of(c10::Device device) = 0;
};
inline constinit thread_local MemorySources* sources_of_thread = nullptr;

/// Returns the source of `device`, one per device in this library. Throws ikebana::Error if
/// LibTorch does not count the device's memory.
MemorySource& memory_source(c10::Device device);

/// Bytes in use now and at the peak on one device, of all threads and trainers of the process. On
/// the CPU the first counter installs a counting allocator in front of the present one, which stays
/// until the process ends: create it before other threads allocate. From then on each allocation
/// costs some tens of nanoseconds and 64 bytes more. It counts exactly the bytes requested through
/// LibTorch, not the scratch memory inside MKL and oneDNN. On accelerators these are LibTorch's own
/// statistics, in whole blocks of its caching allocator; code that resets LibTorch's peak directly
/// resets it for every counter. Copies share one peak. Throws ikebana::Error if LibTorch does not
/// count the device's memory.
class MemoryCounter {
 public:
  template <std::convertible_to<c10::Device> Device>
  explicit MemoryCounter(Device device) : MemoryCounter(memory_source(with_index(device))) {}

  /// Counts what another source counts, which must outlive it.
  explicit MemoryCounter(MemorySource& source);

  /// Returns the bytes in use. On the CPU, these do not include bytes that were allocated before
  /// the first counter (see `counted`).
  int64_t now() const { return attached_->source.now(); }
  /// Returns the most bytes in use at once since this counter was made or its peak was last reset.
  int64_t peak() const { return attached_->source.peak(attached_->tracker); }
  void reset_peak() { attached_->source.reset_peak(attached_->tracker); }

 private:
  struct AttachedTracker {
    explicit AttachedTracker(MemorySource& s) : source(s) { source.attach(tracker); }
    ~AttachedTracker() { source.detach(tracker); }
    AttachedTracker(const AttachedTracker&) = delete;
    AttachedTracker& operator=(const AttachedTracker&) = delete;
    MemorySource& source;
    MemorySource::PeakTracker tracker;
  };

  std::shared_ptr<AttachedTracker> attached_;
};

/// RAII: while it exists, an allocation of LibTorch's on the CPU that would bring the bytes in use
/// by this process beyond `bytes` throws OutOfMemory, which states both and the limit. Counts as
/// MemoryCounter does, so make it before the memory to be counted is allocated. The innermost of
/// several limits holds; destroy them in the reverse order. Costs nothing beyond counting. Throws
/// BadValue for a negative limit.
class MemoryLimit {
 public:
  /// Limits the bytes in use from here to its end; 0 or more.
  template <std::convertible_to<std::int64_t> Bytes>
  explicit MemoryLimit(Bytes bytes) : allocator_(CountingAllocatorV2::install()) {
    if (bytes < 0)
      throw BadValue("MemoryLimit: it is " + std::to_string(bytes) +
                     " bytes. Write how many may be in use, 0 or more.");
    before_ = allocator_.set_limit(bytes);
  }
  ~MemoryLimit() { allocator_.set_limit(before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  CountingAllocatorV2& allocator_;
  int64_t before_;
};

/// Returns true for OutOfMemory, and for an error of LibTorch, of the allocator or of oneDNN that
/// says that memory is short.
bool is_out_of_memory(const std::exception& error);
/// Must be called within a handler. Returns true if the present exception says that memory is
/// short.
bool is_present_out_of_memory();
/// Returns true if a MemoryCounter of the tensor's device counts the tensor's bytes; false on the
/// CPU for memory allocated before the first counter or not by LibTorch (`from_blob`), and for
/// tensors without bytes. Costs a look-up.
bool counted(const at::Tensor& tensor);

/// Returns the bytes of a trainer's tensor if it was allocated before the counting allocator was
/// installed; otherwise 0.
std::int64_t uncounted_bytes(const at::Tensor& t);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/memory.ipp>
#endif
