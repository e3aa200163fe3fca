#pragma once
// The policy BCEWithLogitsLoss and its mechanism.
#include <ikebana/detail/device_copy.hpp>
#include <ikebana/objective/forward.hpp>

namespace ikebana {

/// Sum of the binary cross entropy between logits and probabilities of the same shape, which have a
/// floating-point dtype. Counts elements, as PyTorch's mean does, also with `weight`. `weight` and
/// `pos_weight` broadcast against one row, so that they fit every microbatch: they have fewer
/// dimensions than the target, or size 1 in the first. The batch's fields are those of
/// CrossEntropyLoss. Throws BadBatch and BadValue if shapes or dtypes do not fit. Source:
/// torch.nn.BCEWithLogitsLoss.
struct BCEWithLogitsLoss {
  at::Tensor weight = {};
  at::Tensor pos_weight = {};
  bool outputs = false;
};

template <std::same_as<BCEWithLogitsLoss> Policy>
struct Mechanism<Policy> : ObjectiveHooks {
  using carries_out = BCEWithLogitsLoss;
  BCEWithLogitsLoss values;
  explicit Mechanism(BCEWithLogitsLoss v) : values(std::move(v)) {}

  template <class Run, class Model, class Batch>
  static consteval auto refusal() {
    return detail::forward_refusal<Run, Model, Batch>();
  }
  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    at::Tensor logits = run(model, detail::input_of(batch));
    const at::Tensor& target = detail::target_of(batch);
    detail::check_probabilities("BCEWithLogitsLoss", logits, target);
    at::Tensor sum = at::binary_cross_entropy_with_logits(
        logits, target, weight_for("weight", values.weight, weight_, logits),
        weight_for("pos_weight", values.pos_weight, pos_weight_, logits), at::Reduction::Sum);
    return {sum, count(model, batch), values.outputs || run.evaluating ? logits : at::Tensor()};
  }
  template <class Model, class Batch>
  Count count(Model&, const Batch& batch) {
    return detail::target_of(batch).numel();
  }
  template <class Visit>
  void each_number(const Visit& visit) {
    weight_.each_number(values.weight, visit), pos_weight_.each_number(values.pos_weight, visit);
  }
  std::string describe() const {
    return std::string(values.weight.defined() ? "weight" : "") +
           (values.weight.defined() && values.pos_weight.defined() ? ", " : "") +
           (values.pos_weight.defined() ? "pos_weight" : "");
  }

 private:
  /// The weight on the logits' device. Throws BadValue if it does not broadcast against one row.
  static at::Tensor weight_for(const char* name, const at::Tensor& weight,
                               detail::DeviceCopy& on_device, const at::Tensor& logits) {
    if (!weight.defined()) return {};
    std::int64_t before = logits.dim() - weight.dim();
    bool fits = before >= 0 && (before > 0 || weight.dim() == 0 || weight.size(0) == 1);
    for (std::int64_t i = 0; fits && i < weight.dim(); ++i)
      fits = weight.size(i) == 1 || weight.size(i) == logits.size(before + i);
    if (!fits)
      throw BadValue(std::string("BCEWithLogitsLoss: ") + name + " has shape " +
                     c10::str(weight.sizes()) + ", the logits " + c10::str(logits.sizes()) +
                     ". Give one element, or one per column; put weights of rows into the batch, "
                     "and use them in an objective of your own.");
    return on_device(weight, logits.device());
  }

  detail::DeviceCopy weight_, pos_weight_;
};

}  // namespace ikebana
