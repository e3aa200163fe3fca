#pragma once
// The update of averages where only the device knows whether the step is rejected.
#include <ikebana/average/flags.hpp>
#include <ikebana/average/windows.hpp>

namespace ikebana::detail {

/// Computes into scratch and selects on the device: arithmetic, such as a weight of 0, would not
/// keep every bit if the update is rejected. `each(averaged, copied)` calls `averaged(average,
/// value, as_fp32)` for each average, then `copied(average, value)` for what is only copied.
class DeviceUpdate {
 public:
  void clear() noexcept { scratch_.clear(), weights_.clear(), rejected_.clear(); }
  /// Makes all allocations of the update.
  template <class Each>
  void prepare(const AverageFlags& flags, const Each& each) {
    if (scratch_.empty()) {
      Tensors all;
      each([&](at::Tensor& to, const auto&...) { all.push_back(to); }, [](const auto&...) {});
      scratch_ = shared_like(all);
    }
    weights_.clear(), rejected_.clear();
    auto reject = [&](at::Tensor& to, const auto&...) {
      rejected_.push_back(flags.rejected_on_device.to(to.device()));
    };
    each(
        [&](at::Tensor& to, const auto&...) {
          weights_.push_back(flags.weight_on_device.to(to.options()));
          reject(to);
        },
        reject);
  }
  template <class Each>
  void update(const Each& each) noexcept {
    std::size_t k = 0;
    each(
        [&](at::Tensor& to, const at::Tensor& value, const at::Tensor& as_fp32) {
          at::lerp_out(scratch_[k], to, as_fp32.defined() ? as_fp32.copy_(value) : value,
                       weights_[k]);
          at::where_out(to, rejected_[k], to, scratch_[k]);
          ++k;
        },
        [&](at::Tensor& to, const at::Tensor& value) {
          at::where_out(to, rejected_[k], to, value);
          ++k;
        });
  }

 private:
  Tensors scratch_, weights_, rejected_;  // one per average
};

}  // namespace ikebana::detail
