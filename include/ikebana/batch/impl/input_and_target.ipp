#pragma once
#include <ikebana/batch/input_and_target.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool is_among(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

IKEBANA_INLINE const at::Tensor& one_of_two(const std::vector<at::Tensor>& batch, std::size_t i) {
  if (batch.size() != 2)
    throw BadBatch(
        "batch: the objective takes a list of two tensors, an input and a target, and "
        "this one holds " +
        std::to_string(batch.size()) +
        ". Give it two; several batches of bare tensors are a "
        "std::vector<std::tuple<at::Tensor>>.");
  return batch[i];
}

IKEBANA_INLINE at::Tensor as_classes(const at::Tensor& target) {
  const auto type = target.scalar_type();
  if (type == at::kLong || !at::isIntegralType(type, /*includeBool=*/true)) return target;
  return target.to(at::kLong);
}

}  // namespace ikebana::detail
