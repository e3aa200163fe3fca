#pragma once
// Counts the memory that fake tensors would take, as a source that a MemoryCounter reads.
#include <deque>
#include <functional>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/fake_mode.hpp>
#include <ikebana/fake/fake_tensors.hpp>
#include <vector>

namespace ikebana::bridge {

/// Counts the memory that fake tensors of each device stand for; on an accelerator in whole blocks,
/// as its caching allocator hands them out.
class FakeLedger final : public FakeMemory, public MemorySources {
 public:
  /// Returns the source that counts one device.
  MemorySource& of(c10::Device device) override { return on(device); }
  /// Begins with `bytes` in use on the device.
  void begin_with(c10::Device device, std::int64_t bytes) { on(device).add(bytes, place); }

  /// A function that is called at each new peak. It returns the place of the computation, as a
  /// number that the caller chooses.
  std::function<std::size_t()> place = {};
  /// Returns the place of the computation at the last peak of a device.
  std::size_t place_of_peak(c10::Device device) { return on(device).place_of_peak(); }

  IKEBANA_INLINE std::size_t allocated(std::size_t bytes, c10::Device device) override;
  IKEBANA_INLINE void freed(std::size_t number) noexcept override;

 private:
  class OfDevice final : public MemorySource {
   public:
    void add(std::int64_t bytes, const std::function<std::size_t()>& where);
    void free(std::int64_t bytes) noexcept { now_ -= bytes; }
    std::size_t place_of_peak() const { return place_of_peak_; }
    std::int64_t now() override { return now_; }

   private:
    std::int64_t peak_since_restart() override { return peak_; }
    std::int64_t restart_peak() override { return std::exchange(peak_, now_); }
    std::int64_t now_ = 0, peak_ = 0;
    std::size_t place_of_peak_ = 0;
  };
  struct Block {
    OfDevice* on;
    std::int64_t bytes;
  };
  OfDevice& on(c10::Device device);

  std::deque<std::pair<c10::Device, OfDevice>> devices_;
  std::vector<Block> blocks_;
};

/// RAII: this thread computes without values, and a ledger counts its memory, also for
/// MemoryCounters that are made meanwhile, which must end before it.
class FakeLedgerScope {
 public:
  explicit FakeLedgerScope(std::shared_ptr<FakeLedger> ledger)
      : before_(std::exchange(sources_of_thread, ledger.get())),
        mode_(std::move(ledger)),
        scope_(mode_) {}
  ~FakeLedgerScope() { sources_of_thread = before_; }
  FakeLedgerScope(const FakeLedgerScope&) = delete;
  FakeLedgerScope& operator=(const FakeLedgerScope&) = delete;

  FakeTensors& tensors() { return mode_; }

 private:
  MemorySources* before_;
  FakeTensorMode mode_;
  FakeTensorScope scope_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/fake_ledger.ipp>
#endif
