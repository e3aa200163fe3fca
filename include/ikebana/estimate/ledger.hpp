#pragma once
// The memory that fake tensors would take, as a source that a MemoryCounter reads.
#include <ikebana/bridge/fake_tensors.hpp>
#include <ikebana/bridge/memory.hpp>
#include <vector>

namespace ikebana::detail {

/// Counts what fake tensors of one device stand for. On an accelerator in whole blocks, as its
/// caching allocator hands them out.
class FakeLedger final : public bridge::FakeMemory, public bridge::MemorySource {
 public:
  explicit FakeLedger(c10::Device device) : granule_(device.is_cpu() ? 1 : 512), device_(device) {}

  std::size_t allocated(std::size_t bytes, c10::Device device) override {
    const std::size_t blocks = (bytes + granule_ - 1) / granule_;
    sizes_.push_back(device == device_ ? static_cast<std::int64_t>(blocks * granule_) : 0);
    now_ += sizes_.back();
    peak_ = std::max(peak_, now_);
    return sizes_.size() - 1;
  }
  void freed(std::size_t number) noexcept override { now_ -= sizes_[number]; }
  std::int64_t now() override { return now_; }

 private:
  std::int64_t peak_since_restart() override { return peak_; }
  std::int64_t restart_peak() override { return std::exchange(peak_, now_); }

  std::size_t granule_;
  c10::Device device_;
  std::int64_t now_ = 0, peak_ = 0;
  std::vector<std::int64_t> sizes_;
};

}  // namespace ikebana::detail
