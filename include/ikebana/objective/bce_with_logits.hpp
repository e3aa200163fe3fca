#pragma once
// The policy BCEWithLogitsLoss and its mechanism.
#include <ikebana/objective/output_and_target.hpp>
#include <ikebana/objective/row_weight.hpp>

namespace ikebana {

/// Sum of the binary cross entropy between logits and probabilities of the same shape, which have a
/// floating-point dtype. Counts elements, as PyTorch's mean does, also with `weight`. `weight` and
/// `pos_weight` broadcast against one row, so that they fit every microbatch: they have fewer
/// dimensions than the target, or size 1 in the first. The batch's fields are those of
/// CrossEntropyLoss. Throws BadBatch and BadValue if shapes or dtypes do not fit. Source:
/// torch.nn.BCEWithLogitsLoss.
struct BCEWithLogitsLoss {
  at::Tensor weight = {};      ///< factor of each element's loss, for one row; undefined: 1
  at::Tensor pos_weight = {};  ///< factor of positive targets, for one row; undefined: 1
  bool outputs = false;        ///< whether the report has the model's outputs
};

template <std::same_as<BCEWithLogitsLoss> Policy>
struct Mechanism<Policy> : detail::OutputAndTarget<BCEWithLogitsLoss> {
  using detail::OutputAndTarget<BCEWithLogitsLoss>::OutputAndTarget;

  at::Tensor sum(const at::Tensor& logits, const at::Tensor& target) {
    detail::check_probabilities("BCEWithLogitsLoss", logits, target);
    return at::binary_cross_entropy_with_logits(
        logits, target, weight_("BCEWithLogitsLoss: weight", values.weight, logits),
        pos_weight_("BCEWithLogitsLoss: pos_weight", values.pos_weight, logits),
        at::Reduction::Sum);
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
  detail::RowWeight weight_, pos_weight_;
};

}  // namespace ikebana
