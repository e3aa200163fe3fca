#pragma once
// A weight of a policy that fits every microbatch: it broadcasts against one row of the output.
#include <ikebana/detail/device_copy.hpp>
#include <ikebana/error.hpp>
#include <string>

namespace ikebana::detail {

/// Throws BadValue for a tensor of an objective's values that requires a gradient.
inline void refuse_trained(const at::Tensor& weight) {
  if (weight.defined() && weight.requires_grad())
    throw BadValue(
        "objective: a tensor of its values, such as `weight`, requires a gradient, and no trainer "
        "would update it. Give it weight.detach(); for weights that are trained write the "
        "objective as a lambda (run, model, batch) -> Loss with parameters of the model.");
}

/// Has no values of its own but a copy on the device.
class RowWeight {
 public:
  /// The weight on the output's device; undefined where it is not given. Throws BadValue if it does
  /// not broadcast against one row, or requires a gradient.
  const at::Tensor& operator()(const char* name, const at::Tensor& weight,
                               const at::Tensor& output) {
    if (!weight.defined()) return weight;
    refuse_trained(weight);
    std::int64_t before = output.dim() - weight.dim();
    bool fits = before >= 0 && (before > 0 || weight.dim() == 0 || weight.size(0) == 1);
    for (std::int64_t i = 0; fits && i < weight.dim(); ++i)
      fits = weight.size(i) == 1 || weight.size(i) == output.size(before + i);
    if (!fits)
      throw BadValue(std::string(name) + " has shape " + c10::str(weight.sizes()) +
                     ", the output " + c10::str(output.sizes()) +
                     ". Give one element, or one per column; put weights of rows into the batch, "
                     "and use them in an objective of your own.");
    return on_device_(weight, output.device());
  }
  template <class Visit>
  void each_number(const at::Tensor& weight, const Visit& visit) const {
    on_device_.each_number(weight, visit);
  }

 private:
  DeviceCopy on_device_;
};

}  // namespace ikebana::detail
