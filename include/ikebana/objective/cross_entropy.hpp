#pragma once
// The policy CrossEntropyLoss and its mechanism.
#include <algorithm>
#include <ikebana/detail/device_copy.hpp>
#include <ikebana/objective/forward.hpp>

namespace ikebana {

/// Sum of the cross entropy between logits (N, C, ...) and class indices (N, ...), or class
/// probabilities of the logits' shape. Counts the targets that are not `ignore_index`, each with
/// the `weight` of its class. The batch's fields are `input` and `target` (or data, x; y, label; or
/// a pair). With `outputs` the report has the logits; `evaluate` always has them. Source:
/// torch.nn.CrossEntropyLoss.
struct CrossEntropyLoss {
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
  at::Tensor weight = {};
  bool outputs = false;
};

template <std::same_as<CrossEntropyLoss> Policy>
struct Mechanism<Policy> : ObjectiveHooks {
  using carries_out = CrossEntropyLoss;
  CrossEntropyLoss values;
  explicit Mechanism(CrossEntropyLoss v) : values(std::move(v)) { check(); }

  template <class Run, class Model, class Batch>
  static consteval auto refusal() {
    return detail::forward_refusal<Run, Model, Batch>();
  }
  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    check();
    at::Tensor logits = run(model, detail::input_of(batch));
    const at::Tensor& target = detail::target_of(batch);
    const at::Tensor& weight = weight_(values.weight, logits.device());
    at::Tensor sum = at::cross_entropy_loss(logits, target, weight, at::Reduction::Sum,
                                            values.ignore_index, values.label_smoothing);
    return {sum, count(model, batch), values.outputs || run.evaluating ? logits : at::Tensor()};
  }
  /// The divisor of PyTorch's mean: targets that are not ignored, each with the weight of its
  /// class.
  template <class Model, class Batch>
  Count count(Model&, const Batch& batch) {
    const at::Tensor& target = detail::target_of(batch);
    if (target.is_floating_point())
      return target.dim()
                 ? target.numel() / std::max<std::int64_t>(target.size(1 % target.dim()), 1)
                 : 1;
    const at::Tensor classes = detail::as_classes(target);
    if (!values.weight.defined() && detail::readable(classes) && classes.scalar_type() == at::kLong)
      return count_on_host(classes);
    at::Tensor kept = classes != values.ignore_index;
    if (!values.weight.defined()) return kept.sum();
    const at::Tensor& weight = weight_(values.weight, target.device());
    at::Tensor known = classes.masked_fill(kept.logical_not(), 0);  // ignore_index is not a class
    return (weight.index({known}) * kept).sum();
  }
  template <class Visit>
  void each_number(const Visit& visit) {
    weight_.each_number(values.weight, visit);
  }
  std::string describe() const {
    return "ignore_index=" + std::to_string(values.ignore_index) +
           ", label_smoothing=" + c10::str(values.label_smoothing);
  }

 private:
  void check() const {
    if (!(values.label_smoothing >= 0 && values.label_smoothing <= 1))
      throw BadValue("CrossEntropyLoss: label_smoothing is " + c10::str(values.label_smoothing) +
                     "; it must lie between 0 and 1.");
  }
  /// Counts in a loop over memory, which is faster than two operators.
  std::int64_t count_on_host(const at::Tensor& target) const {
    at::Tensor flat = target.contiguous();
    const auto* begin = static_cast<const std::int64_t*>(flat.const_data_ptr());
    return flat.numel() - std::count(begin, begin + flat.numel(), values.ignore_index);
  }

  detail::DeviceCopy weight_;
};

}  // namespace ikebana
