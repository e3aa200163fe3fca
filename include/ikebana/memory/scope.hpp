#pragma once
// The memory of any code: how much it allocates, keeps and takes at its peak.
#include <ikebana/bridge/device.hpp>
#include <ikebana/bridge/memory.hpp>
#include <ikebana/bridge/memory_facts.hpp>
#include <ikebana/bridge/memory_place.hpp>

namespace ikebana {

/// RAII: measures the memory of one device from its beginning on, of all threads. Scopes nest, each
/// with a peak of its own; its label is that of allocations of this thread in a MemoryHistory. The
/// first one on the CPU installs the counting allocator (bridge/memory.hpp), and what LibTorch
/// allocated before is not counted: make one early. Destroy it on the thread that made it, the
/// innermost first, as a variable of a block is. Costs two locks and no allocation but the label.
/// On an accelerator it does not wait: what the device still computes is allocated already.
/// Throws Error for a device whose memory LibTorch does not count.
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

  /// Bytes that were allocated since and are in use, less those that were there and are freed; may
  /// be negative.
  std::int64_t allocated() const { return counter_.now() - before_; }
  /// The most bytes in use at once since, beyond those that were in use when it began.
  std::int64_t peak() const { return counter_.peak() - before_; }
  /// From now on, the peak is that of what follows.
  void reset_peak() { counter_.reset_peak(); }
  /// Bytes in use now, by the whole process.
  std::int64_t in_use() const { return counter_.now(); }
  /// Bytes in use when it began, by the whole process.
  std::int64_t before() const { return before_; }
  /// What is free, on the machine or the device; reserved and fragmented memory of an accelerator.
  MemoryFacts facts() const;
  /// The label that it was given.
  const std::string& label() const { return label_.text(); }
  /// `epoch 3: allocated 12.0 MiB, peak 45.7 MiB, on cpu`
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
