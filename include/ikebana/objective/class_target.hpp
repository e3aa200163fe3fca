#pragma once
// The base of the objectives whose target is class indices: they agree on which dimension of the
// output holds the classes, and on what is counted.
#include <algorithm>
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/detail/device_copy.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/objective/output_and_target.hpp>
#include <ikebana/objective/row_weight.hpp>

namespace ikebana::detail {

/// Holds `weight` on the device. `Mechanism<Policy>` defines `sum`.
template <class Policy>
struct ClassTarget : OutputAndTarget<Policy> {
  using OutputAndTarget<Policy>::OutputAndTarget;
  using OutputAndTarget<Policy>::values;

  /// Returns the divisor of PyTorch's mean: the targets that are not ignored, each with the weight
  /// of its class, or all targets, if they are probabilities.
  template <class Model, class Batch>
  Count count(Model&, const Batch& batch) {
    const at::Tensor& target = target_tensor<Policy>(batch);
    if (target.is_floating_point())
      return target.dim() ? target.numel() / std::max<std::int64_t>(target.size(dim(target)), 1)
                          : 1;
    const at::Tensor classes = as_classes(target);
    if (!values.weight.defined() && readable(classes) && classes.scalar_type() == at::kLong)
      return count_on_host(classes);
    at::Tensor kept = classes != values.ignore_index;
    if (!values.weight.defined()) return kept.sum();
    refuse_trained(values.weight);
    const at::Tensor& weight = weight_(values.weight, target.device());
    at::Tensor known = classes.masked_fill(kept.logical_not(), 0);  // ignore_index is not a class
    return (weight.index({known}) * kept).sum();
  }
  template <class Visit>
  void each_number(const Visit& visit) {
    weight_.each_number(values.weight, visit);
  }

 protected:
  const at::Tensor& weight(const at::Tensor& output) {
    refuse_trained(values.weight);
    return weight_(values.weight, output.device());
  }
  /// Returns the output and the target with the classes in dimension 1. They are views if the
  /// classes are last and the output is contiguous. Throws BadBatch if their shapes do not fit.
  std::pair<at::Tensor, at::Tensor> classes_second(const at::Tensor& output,
                                                   const at::Tensor& target) const {
    const std::int64_t classes = dim(output), last = output.dim() - 1;
    check_shapes(output, target, classes);
    const bool indices = !target.is_floating_point();
    const at::Tensor known = indices ? as_classes(target) : target;
    if (classes == 1 || output.dim() <= 2) return {output, known};
    if (classes == last)
      return {output.flatten(0, last - 1), indices ? known.flatten() : known.flatten(0, last - 1)};
    return {output.movedim(classes, 1), indices ? known : known.movedim(classes, 1)};
  }

  /// On a device, calls the operator of at::nll_loss for log-probabilities (N, C), which `log`
  /// computes from the output. That operator also counts, in the dtype of the sum: numbers below
  /// 2^24 are exact in Float and Double. Otherwise returns an empty Loss.
  template <class Log>
  Loss counted_nll(const at::Tensor& output, const at::Tensor& given, const Log& log) const {
    if (output.is_cpu() || recording() || values.weight.defined() || given.is_floating_point() ||
        given.numel() >= 1 << 24)
      return {};
    auto type = output.scalar_type();
    if (type != at::kDouble && bridge::AutocastState::capture(output.device().type()).enabled)
      type = at::kFloat;
    const auto [scores, target] = classes_second(output, given);
    if (scores.dim() != 2 || (type != at::kFloat && type != at::kDouble)) return {};
    auto [sum, count] = at::nll_loss_forward(log(scores).to(type), target, {}, at::Reduction::Sum,
                                             values.ignore_index);
    return {sum, count};
  }

 private:
  /// Returns the dimension of the classes in an output, or in probabilities. As in PyTorch, an
  /// output of one dimension is one row. Dimension 0 holds rows.
  std::int64_t dim(const at::Tensor& t) const {
    if (t.dim() <= 1) return 0;
    const std::int64_t d = values.class_dim + (values.class_dim < 0 ? t.dim() : 0);
    if (d <= 0 || d >= t.dim())
      throw BadValue(type_name<Policy>() + ": class_dim is " + std::to_string(values.class_dim) +
                     ", and there are values of shape " + c10::str(t.sizes()) +
                     ". Give it the dimension of the classes: 1, as in PyTorch, or -1 for the "
                     "last; dimension 0 holds the rows.");
    return d;
  }
  /// Returns the shape that class indices for this output have.
  static std::vector<std::int64_t> without(const at::Tensor& output, std::int64_t classes) {
    auto sizes = output.sizes().vec();
    if (!sizes.empty()) sizes.erase(sizes.begin() + classes);
    return sizes;
  }
  void check_shapes(const at::Tensor& output, const at::Tensor& target,
                    std::int64_t classes) const {
    const std::int64_t last = output.dim() - 1;
    const auto indices = without(output, classes);
    if (target.is_floating_point() ? target.sizes() == output.sizes() : target.sizes() == indices)
      return;
    const bool others_fit = output.dim() > 2 && (classes == 1 || classes == last) &&
                            target.sizes() == without(output, classes == 1 ? last : 1);
    std::string cure = ". Give class indices of shape " + c10::str(at::IntArrayRef(indices)) +
                       ", or probabilities of the output's shape.";
    if (others_fit && !target.is_floating_point())
      cure = classes == 1 ? ". If the classes are in the last dimension, write " +
                                type_name<Policy>() + "{.class_dim = -1}."
                          : ". If the classes are in dimension 1, leave class_dim at its default.";
    else if (target.is_floating_point() && (target.sizes() == indices || others_fit))
      cure = ", which is no integer. Convert class indices: target.to(torch::kLong).";
    throw BadBatch(type_name<Policy>() + ": the output has shape " + c10::str(output.sizes()) +
                   " with the classes in dimension " + std::to_string(classes) +
                   ", and the target is " + c10::toString(target.scalar_type()) +
                   c10::str(target.sizes()) + cure);
  }
  /// Counts in a loop over memory, which is faster than two operators.
  std::int64_t count_on_host(const at::Tensor& target) const {
    at::Tensor flat = target.contiguous();
    const auto* begin = static_cast<const std::int64_t*>(flat.const_data_ptr());
    return flat.numel() - std::count(begin, begin + flat.numel(), values.ignore_index);
  }

  DeviceCopy weight_;
};

}  // namespace ikebana::detail
