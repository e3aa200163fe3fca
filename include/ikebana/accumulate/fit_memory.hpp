#pragma once
// What Accumulate<Fit<>> knows of memory: bytes in use, and their limit on a CPU.
#include <ikebana/bridge/memory.hpp>
#include <ikebana/bridge/shared_memory_limit.hpp>
#include <optional>

namespace ikebana::detail {

/// The bytes that steps use. Not known on a device without statistics, and on a CPU whose memory is
/// not counted: it has neither a limit nor a MemoryCounter.
class FitMemory {
 public:
  void attach(c10::Device device, std::int64_t limit);
  /// Throws BadValue for a limit that cannot be held.
  void check(std::int64_t limit);
  std::int64_t now() const { return counter_ ? counter_->now() : 0; }
  /// An attempt begins.
  void begin();
  /// Bytes in use before the attempt, and at its peak beyond these.
  std::int64_t base() const { return base_; }
  std::int64_t used() const;
  /// An attempt ran out of memory and was undone: as much is in use as before it.
  void end_failed();
  /// How many bytes may be in use.
  std::int64_t bound(std::int64_t limit) const;

 private:
  void watch(std::int64_t limit);

  c10::Device device_ = at::kCPU;
  std::optional<bridge::MemoryCounter> counter_;
  std::int64_t base_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/accumulate/impl/fit_memory.ipp>
#endif
