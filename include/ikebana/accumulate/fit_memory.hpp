#pragma once
// What Accumulate<Fit<>> knows of memory: bytes in use, and their limit on a CPU.
#include <ikebana/bridge/memory.hpp>
#include <ikebana/bridge/shared_memory_limit.hpp>
#include <optional>

namespace ikebana::detail {

/// The bytes that steps use. Not known on a device without statistics, and on a CPU whose memory is
/// not counted: it has neither a limit nor a MemoryCounter.
template <class = void>
class FitMemory {
 public:
  void attach(c10::Device device, std::int64_t limit) {
    device_ = device;
    if (device.is_cpu()) return watch(limit);
    try {
      counter_.emplace(device);
    } catch (const Error&) {  // this LibTorch does not count its memory
    }
  }
  /// Throws BadValue for a limit that cannot be held.
  void check(std::int64_t limit) {
    if (limit == 0) return;
    const std::string value = "Accumulate<Fit<>>: limit is " + std::to_string(limit) + " bytes";
    if (limit < 0) throw BadValue(value + ". Write how many may be in use, or 0 for no limit.");
    if (!device_.is_cpu())
      throw BadValue(value + ", and the model is on " + device_.str() +
                     ", of which LibTorch has no limit that this library could set. Leave it out: "
                     "the device's own memory is the limit.");
    watch(limit);
    if (const std::int64_t now = counter_->now(); now > limit)
      throw BadValue(value + ", and " + std::to_string(now) +
                     " are in use already, by parameters, their state and all else that this "
                     "process keeps. Raise it.");
  }
  std::int64_t now() const { return counter_ ? counter_->now() : 0; }
  /// An attempt begins.
  void begin() {
    if (!counter_) return;
    counter_->reset_peak();
    base_ = counter_->now();
  }
  /// Bytes in use before the attempt, and at its peak beyond these.
  std::int64_t base() const { return base_; }
  std::int64_t used() const {
    return counter_ ? std::max<std::int64_t>(counter_->peak() - base_, 0) : 0;
  }
  /// An attempt ran out of memory and was undone: as much is in use as before it.
  void end_failed() {
    if (counter_) base_ = counter_->now();
  }
  /// How many bytes may be in use.
  std::int64_t bound(std::int64_t limit) const {
    std::int64_t bytes = limit > 0 ? limit : bridge::CountingAllocatorV2::no_limit;
    if (const auto* present = bridge::CountingAllocatorV2::installed(); present && device_.is_cpu())
      bytes = std::min(bytes, present->limit());
    return bytes;
  }

 private:
  void watch(std::int64_t limit) {
    if (!counter_ && (limit > 0 || bridge::CountingAllocatorV2::installed() != nullptr))
      counter_.emplace(device_);
  }

  c10::Device device_ = at::kCPU;
  std::optional<bridge::MemoryCounter> counter_;
  std::int64_t base_ = 0;
};

}  // namespace ikebana::detail
