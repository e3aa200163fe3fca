#pragma once
// What an update of averages must know of the step.
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Whether the average stays as it is, whether it begins with this value, and the weight of the new
/// value. If only the device knows, they are tensors, which are made before the update.
struct AverageFlags {
  bool on_host = true, is_first = true, is_rejected = false;
  double weight = 1;  ///< of the new value
  /// On the device, if on_host is false; `updates_on_device` is the number of updates, 0 or 1.
  at::Tensor rejected_on_device, weight_on_device, updates_on_device;

  AverageFlags() = default;
  /// `updates` is the number of averages so far, and `weight_of` the weight of the next value where
  /// there were that many, as a double and as a tensor of one. `first_copies`: the first is 1.
  template <class WeightOf>
  AverageFlags(const at::Tensor& found_inf, const at::Tensor& updates, bool first_copies,
               const WeightOf& weight_of) {
    on_host = readable(updates) && (!found_inf.defined() || readable(found_inf));
    if (on_host) {
      is_first = first_copies && number(updates) == 0;
      is_rejected = found_inf.defined() && number(found_inf) != 0;
      weight = weight_of(number(updates));
    } else {
      rejected_on_device =
          found_inf.defined() ? found_inf != 0 : at::zeros_like(updates, at::kBool);
      weight_on_device = weight_of(updates.to(at::kDouble));
      if (first_copies) weight_on_device = weight_on_device.masked_fill(updates == 0, 1);
      updates_on_device = rejected_on_device.logical_not().to(at::kLong);
    }
  }
  /// Of a step that takes no average.
  static AverageFlags none();
  void count(at::Tensor& updates) const noexcept;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/average/impl/flags.ipp>
#endif
