#pragma once
// The types that belong to an optimizer of torch::optim: its options, and its state per parameter.
#include <concepts>
#include <ikebana/hooks.hpp>
#include <ikebana/optimizer/libtorch/archive_values.hpp>

namespace ikebana::detail {

/// Those of LibTorch's optimizer that `Optimizer` is or derives from.
template <class Optimizer>
struct libtorch_types {};
#define IKEBANA_LIBTORCH_TYPES(Name)                   \
  template <std::derived_from<torch::optim::Name> O>   \
  struct libtorch_types<O> {                           \
    using Options = torch::optim::Name##Options;       \
    using ParamState = torch::optim::Name##ParamState; \
  }
IKEBANA_LIBTORCH_TYPES(Adagrad);
IKEBANA_LIBTORCH_TYPES(Adam);
IKEBANA_LIBTORCH_TYPES(AdamW);
IKEBANA_LIBTORCH_TYPES(LBFGS);
IKEBANA_LIBTORCH_TYPES(RMSprop);
IKEBANA_LIBTORCH_TYPES(SGD);
#undef IKEBANA_LIBTORCH_TYPES

/// The options of an optimizer: those that it names, or LibTorch's.
template <class Optimizer>
struct options_of : libtorch_types<Optimizer> {};
template <class Optimizer>
  requires requires { typename Optimizer::Options; }
struct options_of<Optimizer> {
  using Options = typename Optimizer::Options;
};
template <class Optimizer>
concept has_options = requires { typename options_of<Optimizer>::Options; };

/// Its state of a parameter. The base, which has no values, stands for no state.
template <class Optimizer>
struct param_state_of {
  using type = torch::optim::OptimizerParamState;
};
template <class Optimizer>
  requires requires { typename libtorch_types<Optimizer>::ParamState; }
struct param_state_of<Optimizer> {
  using type = typename libtorch_types<Optimizer>::ParamState;
};
template <class Optimizer>
  requires requires { typename Optimizer::ParamState; }
struct param_state_of<Optimizer> {
  using type = typename Optimizer::ParamState;
};
template <class Optimizer>
using param_state_t = typename param_state_of<Optimizer>::type;

// Through the bases, in which these functions are public: after a TORCH_ARG they are private.

torch::optim::OptimizerOptions& base_of(torch::optim::OptimizerOptions& options);
const torch::optim::OptimizerOptions& base_of(const torch::optim::OptimizerOptions& options);
torch::optim::OptimizerParamState& base_of(torch::optim::OptimizerParamState& state);
const torch::optim::OptimizerParamState& base_of(const torch::optim::OptimizerParamState& state);

/// LibTorch's own: their tensors have the shape and dtype of the parameter.
template <class State>
concept is_libtorch_state = std::is_same_v<State, torch::optim::AdamParamState> ||
                            std::is_same_v<State, torch::optim::AdamWParamState> ||
                            std::is_same_v<State, torch::optim::SGDParamState> ||
                            std::is_same_v<State, torch::optim::RMSpropParamState> ||
                            std::is_same_v<State, torch::optim::AdagradParamState>;

/// The defined tensors of a parameter's state. Asks for those of LibTorch's optimizers directly,
/// since an archive takes some ten microseconds.
template <class State>
Tensors tensors_of(const State& s) {
  Tensors all;
  if constexpr (!is_libtorch_state<State>) {
    for (const auto& [name, value] : bridge::values_of(base_of(s)))
      if (value.isTensor()) all.push_back(value.toTensor());
  } else {
    if constexpr (requires { s.max_exp_avg_sq(); })
      all = {s.exp_avg(), s.exp_avg_sq(), s.max_exp_avg_sq()};
    else if constexpr (requires { s.grad_avg(); })
      all = {s.square_avg(), s.momentum_buffer(), s.grad_avg()};
    else if constexpr (requires { s.sum(); }) all = {s.sum()};
    else all = {s.momentum_buffer()};
  }
  std::erase_if(all, [](const at::Tensor& t) { return !t.defined(); });
  return all;
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/libtorch/impl/libtorch_types.ipp>
#endif
