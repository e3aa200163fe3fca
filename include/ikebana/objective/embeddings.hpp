#pragma once
// Defines the base of the objectives that compare embeddings which the model computes of several
// inputs.
#include <ikebana/detail/fields.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/objective/forward.hpp>

namespace ikebana::detail {

/// Returns the compile-time error for a model that cannot be called with one of these inputs.
template <class Run, class Model, class First, class... Rest>
consteval auto inputs_refusal() {
  using Refusal = decltype(input_refusal<Run, Model, First>());
  if constexpr (sizeof...(Rest) == 0 || !std::is_same_v<Refusal, refuse::is<refuse::Nothing>>)
    return Refusal{};
  else return inputs_refusal<Run, Model, Rest...>();
}

/// `Mechanism<Policy>` derives from it.
template <class Policy>
struct Embeddings : ObjectiveHooks {
  using carries_out = Policy;
  Policy values;
  explicit Embeddings(Policy v) : values(std::move(v)) {}

 protected:
  static void check_embeddings(const std::vector<at::Tensor>& all) {
    for (const at::Tensor& one : all)
      if (one.dim() != 2 || one.sizes() != all[0].sizes())
        throw BadModel(type_name<Policy>() + ": the model returns " + tensors_text(all) +
                       " for the inputs of a batch. Let it return one embedding per row, of shape "
                       "(N, D), for each.");
  }
  /// Returns the outputs for the report and the metrics.
  template <class Run>
  at::Tensor joined(const Run& run, const std::vector<at::Tensor>& all) const {
    return values.outputs || run.evaluating ? at::stack(all, 1) : at::Tensor();
  }
};

}  // namespace ikebana::detail
