#pragma once
// Defines the policy BCEWithLogitsLoss and its mechanism.
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/objective/output_and_target.hpp>
#include <ikebana/objective/row_weight.hpp>

namespace ikebana {

/// Sum of the binary cross entropy between logits and probabilities of the same shape, which have a
/// floating-point dtype. Counts elements, as PyTorch's mean does, also with `weight`. `weight` and
/// `pos_weight` broadcast against one row, so that they fit every microbatch: they have fewer
/// dimensions than the target, or size 1 in the first. The batch has the fields that
/// CrossEntropyLoss takes. Throws BadBatch and BadValue if shapes or dtypes do not fit. Source:
/// torch.nn.BCEWithLogitsLoss.
struct BCEWithLogitsLoss {
  at::Tensor weight = {};      ///< factor of each element's loss, for one row; undefined: 1
  at::Tensor pos_weight = {};  ///< factor of positive targets, for one row; undefined: 1
  bool outputs = false;        ///< whether the report has the model's outputs
};

template <>
struct Mechanism<BCEWithLogitsLoss> : detail::OutputAndTarget<BCEWithLogitsLoss> {
  using detail::OutputAndTarget<BCEWithLogitsLoss>::OutputAndTarget;

  at::Tensor sum(const at::Tensor& logits, const at::Tensor& target);
  template <class Visit>
  void each_number(const Visit& visit) {
    weight_.each_number(values.weight, visit), pos_weight_.each_number(values.pos_weight, visit);
  }
  std::string describe() const;

 private:
  detail::RowWeight weight_, pos_weight_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/bce_with_logits.ipp>
#endif
