#pragma once
// Defines a model of two units, one inside the other, that records when it computes.
#include "spy.hpp"

namespace test {

/// Records a line in the model's own forward, and one in its backward.
struct BackwardMark : torch::autograd::Function<BackwardMark> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const std::string& name) {
    context->saved_data["name"] = name;
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    journal.ask("backward(" + context->saved_data["name"].toStringRef() + ")");
    return {gradients[0], {}};
  }
};
inline at::Tensor mark(const std::string& name, const at::Tensor& x) {
  journal.ask("forward(" + name + ")");
  return at::GradMode::is_enabled() ? BackwardMark::apply(x, name) : x;
}

struct Rows {
  at::Tensor input, target;
};
inline Rows rows_of(int seed, std::int64_t n = 4) {
  return {random({n, 3}, seed), random({n, 1}, seed + 100)};
}

struct InnerImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(5, 5));
  Noise noise{nullptr};
  at::Tensor forward(const at::Tensor& x) {
    auto y = w(x);
    return mark("inner", at::tanh(noise ? noise(y) : y));
  }
};
TORCH_MODULE(Inner);
struct OuterImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(5, 5));
  Inner inner = register_module("inner", Inner());
  Noise noise{nullptr};
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    auto y = mark("outer", at::tanh(noise ? noise(w(x)) : w(x)));
    return at::tanh(run(inner, y));
  }
};
TORCH_MODULE(Outer);
/// Two units, one inside the other; the root has parameters of its own before them.
struct NestImpl : torch::nn::Module {
  using units = ikebana::Units<Outer, Inner>;
  torch::nn::Linear first = register_module("first", torch::nn::Linear(3, 5));
  Outer outer = register_module("outer", Outer());
  Noise noise{nullptr};
  /// It is called with a unit's input, and with its output once its hooks are attached.
  std::function<at::Tensor(at::Tensor)> listen = [](at::Tensor t) { return t; };
  template <class Run>
  ikebana::Loss loss(Run& run, const Rows& batch) {
    auto x = mark("root", first(batch.input));
    if (noise) x = noise(x);
    x = listen(run(outer, listen(x))).sum(1, true);
    return {at::mse_loss(x, batch.target, at::Reduction::Sum), batch.target.numel()};
  }
  ikebana::Count count(const Rows& batch) { return batch.target.numel(); }
};
TORCH_MODULE(Nest);
inline Nest nest() {
  torch::manual_seed(0);
  return Nest();
}
/// Makes a net with batch norm and dropout in the root and in both units.
inline Nest noisy_nest() {
  Nest model = nest();
  auto add = [](auto& module) { module->noise = module->register_module("noise", Noise(5)); };
  add(model), add(model->outer), add(model->outer->inner);
  return model;
}

}  // namespace test
