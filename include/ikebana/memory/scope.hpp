#pragma once
// Measures the memory of any code: how much it allocates, keeps and uses at its peak.
#include <ikebana/bridge/device.hpp>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/memory_facts.hpp>
#include <ikebana/bridge/memory_place.hpp>

namespace ikebana {

/// RAII: measures the memory of one device, of all threads, while it exists. Scopes nest, each with
/// a peak of its own. A MemoryHistory gives allocations of this thread the scope's label. The first
/// one on the CPU installs the counting allocator (bridge/memory_counter.hpp), and what LibTorch
/// allocated before is not counted: make one early. Destroy it on the thread that made it, the
/// innermost first, as a variable of a block is. Costs two locks, and allocates only the label. On
/// an accelerator it does not wait: what the device still computes is allocated already. Throws
/// Error for a device whose memory LibTorch does not count.
class MemoryScope {
 public:
  /// Measures memory of `device` from now on; the label may be empty.
  template <std::convertible_to<c10::Device> Device = c10::DeviceType>
  explicit MemoryScope(std::string label = "", Device device = at::kCPU)
      : device_(bridge::with_index(device)),
        counter_(device_),
        before_(counter_.now()),
        label_(std::move(label)) {}
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

  /// Bytes in use now, less the bytes in use when the scope began; may be negative.
  std::int64_t allocated() const { return counter_.now() - before_; }
  /// Returns the most bytes in use at once, less the bytes in use when the scope began.
  std::int64_t peak() const { return counter_.peak() - before_; }
  /// Begins the peak again from the bytes in use now.
  void reset_peak() { counter_.reset_peak(); }
  /// Returns the bytes that the whole process uses now.
  std::int64_t in_use() const { return counter_.now(); }
  /// Returns the bytes that the whole process used when the scope began.
  std::int64_t before() const { return before_; }
  /// Returns the free memory of the machine or the device, and an accelerator's reserved and
  /// fragmented memory.
  MemoryFacts facts() const;
  /// Returns the label that it was given.
  const std::string& label() const { return label_.text(); }
  /// Returns a text such as `epoch 3: allocated 12.0 MiB, peak 45.7 MiB, on cpu`.
  std::string text() const;

 private:
  static std::string signed_bytes(std::int64_t bytes);
  c10::Device device_;
  bridge::MemoryCounter counter_;
  std::int64_t before_;
  bridge::MemoryLabel label_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/scope.ipp>
#endif
