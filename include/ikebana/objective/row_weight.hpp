#pragma once
// A weight of a policy that fits every microbatch: it broadcasts against one row of the output.
#include <ikebana/detail/device_copy.hpp>

namespace ikebana::detail {

/// Throws BadValue for a tensor of an objective's values that requires a gradient.
void refuse_trained(const at::Tensor& weight);

/// Has no values of its own but a copy on the device.
class RowWeight {
 public:
  /// The weight on the output's device; undefined where it is not given. Throws BadValue if it does
  /// not broadcast against one row, or requires a gradient.
  const at::Tensor& operator()(const char* name, const at::Tensor& weight,
                               const at::Tensor& output);
  template <class Visit>
  void each_number(const at::Tensor& weight, const Visit& visit) const {
    on_device_.each_number(weight, visit);
  }

 private:
  DeviceCopy on_device_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/row_weight.ipp>
#endif
