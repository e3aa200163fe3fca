#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/libtorch/libtorch_types.hpp>

namespace ikebana::detail {

IKEBANA_INLINE torch::optim::OptimizerOptions& base_of(torch::optim::OptimizerOptions& options) {
  return options;
}

IKEBANA_INLINE const torch::optim::OptimizerOptions& base_of(
    const torch::optim::OptimizerOptions& options) {
  return options;
}

IKEBANA_INLINE torch::optim::OptimizerParamState& base_of(
    torch::optim::OptimizerParamState& state) {
  return state;
}

IKEBANA_INLINE const torch::optim::OptimizerParamState& base_of(
    const torch::optim::OptimizerParamState& state) {
  return state;
}

}  // namespace ikebana::detail
