#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/objective/row_weight.hpp>
#include <string>

namespace ikebana::detail {

IKEBANA_INLINE void refuse_trained(const at::Tensor& weight) {
  if (weight.defined() && weight.requires_grad())
    throw BadValue(
        "objective: a tensor of its values, such as `weight`, requires a gradient, and no trainer "
        "would update it. Give it weight.detach(); for weights that are trained write the "
        "objective as a lambda (run, model, batch) -> Loss with parameters of the model.");
}

IKEBANA_INLINE const at::Tensor& RowWeight::operator()(const char* name, const at::Tensor& weight,
                                                       const at::Tensor& output) {
  if (!weight.defined()) return weight;
  refuse_trained(weight);
  std::int64_t before = output.dim() - weight.dim();
  bool fits = before >= 0 && (before > 0 || weight.dim() == 0 || weight.size(0) == 1);
  for (std::int64_t i = 0; fits && i < weight.dim(); ++i)
    fits = weight.size(i) == 1 || weight.size(i) == output.size(before + i);
  if (!fits)
    throw BadValue(std::string(name) + " has shape " + c10::str(weight.sizes()) + ", the output " +
                   c10::str(output.sizes()) +
                   ". Give one element, or one per column; put weights of rows into the batch, "
                   "and use them in an objective of your own.");
  return on_device_(weight, output.device());
}

}  // namespace ikebana::detail
