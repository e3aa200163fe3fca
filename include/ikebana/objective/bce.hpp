#pragma once
// Defines the policy BCELoss and its mechanism.
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/objective/output_and_target.hpp>
#include <ikebana/objective/row_weight.hpp>

namespace ikebana {

/// Sum of the binary cross entropy between probabilities (the output, of a sigmoid) and target
/// probabilities of the same shape. BCEWithLogitsLoss computes it from logits, and stays exact if a
/// probability is rounded to 0 or 1. Counts elements, as PyTorch's mean does, also with `weight`,
/// which broadcasts against one row. The batch has the fields that CrossEntropyLoss takes. Runs in
/// the output's own precision, also under autocast; throws BadModel for an output of half
/// precision, in which probabilities above 0.998 are 1, and for values outside of 0 to 1; BadBatch
/// and BadValue if shapes or dtypes do not fit. On a device, values outside of 0 to 1 fail an
/// assertion in its kernel, after which the program cannot use the device. Source:
/// torch.nn.BCELoss.
struct BCELoss {
  at::Tensor weight = {};  ///< factor of each element's loss, for one row; undefined: 1
  bool outputs = false;    ///< whether the report has the model's outputs
};

template <>
struct Mechanism<BCELoss> : detail::OutputAndTarget<BCELoss> {
  using detail::OutputAndTarget<BCELoss>::OutputAndTarget;

  at::Tensor sum(const at::Tensor& output, const at::Tensor& target);
  template <class Visit>
  void each_number(const Visit& visit) {
    weight_.each_number(values.weight, visit);
  }
  std::string describe() const { return values.weight.defined() ? "weight" : ""; }

 private:
  static void throw_outside(const std::string& message);

  detail::RowWeight weight_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/objective/impl/bce.ipp>
#endif
