#pragma once
// The memory that fake tensors would take, as a source that a MemoryCounter reads.
#include <deque>
#include <functional>
#include <ikebana/bridge/fake_mode.hpp>
#include <ikebana/bridge/memory.hpp>
#include <tuple>
#include <vector>

namespace ikebana::bridge {

/// Counts what fake tensors of each device stand for. On an accelerator in whole blocks, as its
/// caching allocator hands them out.
class FakeLedger final : public FakeMemory, public MemorySources {
 public:
  /// What is in use on one device.
  MemorySource& of(c10::Device device) override { return on(device); }
  /// So many bytes are in use there before.
  void begin_with(c10::Device device, std::int64_t bytes) { on(device).add(bytes, place); }

  /// Is called at each new peak, and returns where the computation is: a number of the caller's.
  std::function<std::size_t()> place = {};
  /// Where it was at the last peak of a device.
  std::size_t place_of_peak(c10::Device device) { return on(device).place_of_peak(); }

  std::size_t allocated(std::size_t bytes, c10::Device device) override {
    if (ikebana::detail::is_made_in_file) device = at::kMeta;  // of which nothing else is counted
    const std::size_t granule = device.is_cpu() ? 1 : 512;
    blocks_.push_back(
        {&on(device), static_cast<std::int64_t>((bytes + granule - 1) / granule * granule)});
    blocks_.back().on->add(blocks_.back().bytes, place);
    return blocks_.size() - 1;
  }
  void freed(std::size_t number) noexcept override {
    blocks_[number].on->free(blocks_[number].bytes);
  }

 private:
  class OfDevice final : public MemorySource {
   public:
    void add(std::int64_t bytes, const std::function<std::size_t()>& where) {
      now_ += bytes;
      if (now_ <= peak_) return;
      peak_ = now_;
      if (where) place_of_peak_ = where();
    }
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
  OfDevice& on(c10::Device device) {
    for (auto& [known, memory] : devices_)
      if (known == device) return memory;
    return devices_
        .emplace_back(std::piecewise_construct, std::forward_as_tuple(device),
                      std::forward_as_tuple())
        .second;
  }

  std::deque<std::pair<c10::Device, OfDevice>> devices_;
  std::vector<Block> blocks_;
};

/// RAII: this thread computes without values, and its memory is counted in a ledger, also by
/// MemoryCounters that are made meanwhile; these must end before it.
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
