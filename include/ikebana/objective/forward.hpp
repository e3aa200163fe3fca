#pragma once
// How an objective runs a model that has a `forward` and no `loss`.
#include <ikebana/run.hpp>

namespace ikebana::detail {

template <class Result>
Loss as_loss(Result&& result) {
  if constexpr (std::is_convertible_v<Result, Loss>) return std::forward<Result>(result);
  else {
    (void)sizeof(refuse::NotALoss<std::remove_cvref_t<Result>>);
    return {};
  }
}

/// The model's output: through its own `forward(run, x)`, child by child of a Sequential, or as one
/// unit. A model whose units its forward cannot reach is refused.
template <class Run, class Model, class Input>
at::Tensor forward(Run& run, Model& model, const Input& input) {
  using Units = units_of_t<Model>;
  if constexpr (std::is_same_v<Units, Children>) {
    torch::nn::AnyValue value(input);
    for (torch::nn::AnyModule& child : *model) value = run(child, value);
    return value.template get<at::Tensor>();
  } else if constexpr (requires { model->forward(run, input); }) {
    return model->forward(run, input);
  } else if constexpr (std::is_void_v<Units>) {
    return run(model, input);
  } else {
    (void)sizeof(refuse::ForwardWithoutRun<impl_of_t<Model>>);
    return {};
  }
}

}  // namespace ikebana::detail
