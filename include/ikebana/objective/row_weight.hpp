#pragma once
// The weight of an objective: it broadcasts against one row of the output, so it fits every
// microbatch.
#include <ikebana/detail/device_copy.hpp>

namespace ikebana::detail {

/// Throws BadValue if a tensor among an objective's values requires a gradient.
void refuse_trained(const at::Tensor& weight);

/// A copy of the weight on the device of the output.
class RowWeight {
 public:
  /// Returns the weight on the output's device; undefined if it is not given. Throws BadValue if it
  /// does not broadcast against one row, or requires a gradient.
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
