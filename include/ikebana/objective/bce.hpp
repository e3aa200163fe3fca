#pragma once
// The policy BCELoss and its mechanism.
#include <ikebana/objective/output_and_target.hpp>
#include <ikebana/objective/row_weight.hpp>

namespace ikebana {

/// Sum of the binary cross entropy between probabilities (the output, of a sigmoid) and target
/// probabilities of the same shape. BCEWithLogitsLoss computes the same from logits, exactly also
/// where a probability is rounded to 0 or 1. Counts elements, as PyTorch's mean does, also with
/// `weight`, which broadcasts against one row. The batch's fields are those of CrossEntropyLoss.
/// Runs in the output's own precision, also under autocast; throws BadModel for an output of half
/// precision, in which probabilities above 0.998 are 1, and for one outside of 0 to 1; BadBatch and
/// BadValue if shapes or dtypes do not fit. On a device values outside of 0 to 1 are an assertion
/// of its kernel, which ends the program's use of the device. Source: torch.nn.BCELoss.
struct BCELoss {
  at::Tensor weight = {};  ///< factor of each element's loss, for one row; undefined: 1
  bool outputs = false;    ///< whether the report has the model's outputs
};

template <std::same_as<BCELoss> Policy>
struct Mechanism<Policy> : detail::OutputAndTarget<BCELoss> {
  using detail::OutputAndTarget<BCELoss>::OutputAndTarget;

  at::Tensor sum(const at::Tensor& output, const at::Tensor& target) {
    detail::check_probabilities("BCELoss", output, target);
    const auto type = output.scalar_type();
    if (type == at::kBFloat16 || type == at::kHalf)
      throw BadModel("BCELoss: the output is " + std::string(c10::toString(type)) +
                     ", in which probabilities near 1 are rounded to 1, and have no gradient. Use "
                     "BCEWithLogitsLoss on logits, without the sigmoid; or compute the sigmoid in "
                     "single precision: x.to(torch::kFloat).sigmoid().");
    // Autocast refuses the operator on a GPU, whatever the dtype.
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    try {
      return at::binary_cross_entropy(
          output, target, weight_("BCELoss: weight", values.weight, output), at::Reduction::Sum);
    } catch (const c10::Error& error) {
      throw_outside(error.what_without_backtrace());
      throw;
    }
  }
  template <class Visit>
  void each_number(const Visit& visit) {
    weight_.each_number(values.weight, visit);
  }
  std::string describe() const { return values.weight.defined() ? "weight" : ""; }

 private:
  static void throw_outside(const std::string& message) {
    if (message.find("input should be between 0 and 1") != message.npos)
      throw BadModel(
          "BCELoss: the output has values outside of 0 to 1, or NaN. End the model with a sigmoid, "
          "or use BCEWithLogitsLoss, which takes logits.");
    if (message.find("target should be between 0 and 1") != message.npos)
      throw BadBatch("BCELoss: the target has values outside of 0 to 1. Give it probabilities.");
  }

  detail::RowWeight weight_;
};

}  // namespace ikebana
