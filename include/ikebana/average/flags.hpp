#pragma once
// What an update of averages must know of the step.
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Whether the step is rejected, whether it is the first, and the weight of the new value. If only
/// the device knows, they are tensors, which are made before the update.
struct AverageFlags {
  bool on_host = true, is_first = true, is_rejected = false;
  double weight = 1;  ///< of the new value: 1 - decay
  /// On the device, if on_host is false; `updates_on_device` is the number of updates, 0 or 1.
  at::Tensor rejected_on_device, weight_on_device, updates_on_device;

  AverageFlags() = default;
  AverageFlags(const at::Tensor& found_inf, const at::Tensor& updates, double decay) {
    on_host = readable(updates) && (!found_inf.defined() || readable(found_inf));
    weight = 1 - decay;
    if (on_host) {
      is_first = updates.item<std::int64_t>() == 0;
      is_rejected = found_inf.defined() && number(found_inf) != 0;
    } else {
      rejected_on_device =
          found_inf.defined() ? found_inf != 0 : at::zeros_like(updates, at::kBool);
      weight_on_device = at::where(updates == 0, 1.0, weight);
      updates_on_device = rejected_on_device.logical_not().to(at::kLong);
    }
  }
  void count(at::Tensor& updates) const noexcept {
    if (!on_host) updates.add_(updates_on_device);
    else if (!is_rejected) *updates.data_ptr<std::int64_t>() += 1;
  }
};

}  // namespace ikebana::detail
