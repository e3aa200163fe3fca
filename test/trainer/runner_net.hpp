#pragma once
// A model whose loss is defined in another file: it takes a Runner instead of a template's Run.
#include <ikebana.hpp>

namespace test {

struct Pairs {
  at::Tensor input, target;
};

struct LayerImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(4, 4));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.5));
  at::Tensor forward(const at::Tensor& x) { return drop(at::tanh(w(x))); }
};
TORCH_MODULE(Layer);

/// Contains a unit; takes and returns more than one value.
struct StackImpl : torch::nn::Module {
  Layer a = register_module("a", Layer()), b = register_module("b", Layer());
  template <class Run>
  std::pair<at::Tensor, int> forward(Run& run, const at::Tensor& x, double factor) {
    return {run(b, run(a, x)) * factor, 2};
  }
};
TORCH_MODULE(Stack);

/// The loss in a header, for any Run.
struct OpenNetImpl : torch::nn::Module {
  using units = ikebana::Units<Stack, Layer>;
  Stack stack = register_module("stack", Stack());
  Layer last = register_module("last", Layer());

  template <class Run>
  ikebana::Loss by(Run& run, const Pairs& batch) {
    auto [y, uses] = run(stack, batch.input, 0.5);
    auto sum = at::mse_loss(run(last, y) * uses, batch.target, at::Reduction::Sum);
    return {sum, batch.target.numel(), y};
  }
  template <class Run>
  ikebana::Loss loss(Run& run, const Pairs& batch) {
    return by(run, batch);
  }
};
TORCH_MODULE(OpenNet);

/// This net has its loss in a .cpp.
struct ClosedNetImpl : OpenNetImpl {
  ikebana::Loss loss(ikebana::Runner& run, const Pairs& batch);
};
TORCH_MODULE(ClosedNet);

}  // namespace test
