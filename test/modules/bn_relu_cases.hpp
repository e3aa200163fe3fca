#pragma once
// The layers of the tests of modules::BNReLU2d, and what they must equal in double precision.
#include <ATen/record_function.h>

#include "attention_cases.hpp"

#include <ikebana/modules/bn_relu.hpp>

namespace test::bn_relu {

using ikebana::modules::BNReLU2d;
namespace nn = torch::nn;
using Options = nn::BatchNorm2dOptions;

constexpr auto contiguous = at::MemoryFormat::Contiguous;
constexpr auto channels_last = at::MemoryFormat::ChannelsLast;

struct Case {
  std::vector<std::int64_t> sizes;
  at::MemoryFormat format;
  bool adds;
};
inline std::vector<Case> cases() {
  const std::vector<std::vector<std::int64_t>> all = {
      {3, 1, 2, 1}, {3, 8, 5, 7}, {17, 13, 3, 3}, {40, 16, 8, 8}, {2, 70, 20, 30}, {1, 3, 9, 2}};
  std::vector<Case> list;
  for (const auto& sizes : all)
    for (const auto format : {contiguous, channels_last})
      for (const bool adds : {false, true}) list.push_back({sizes, format, adds});
  return list;
}
/// Returns whether f called LibTorch's own batch norm.
template <class F>
bool calls_batch_norm(const F& f) {
  static thread_local bool found = false;
  found = false;
  const auto note = [](const at::RecordFunction& r) -> std::unique_ptr<at::ObserverContext> {
    found |= std::string(r.name()) == "aten::native_batch_norm";
    return nullptr;
  };
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(note).scopes({at::RecordScope::FUNCTION}));
  f();
  at::removeCallback(handle);
  return found;
}

struct Layer {
  BNReLU2d layer;
  at::Tensor x, residual, gradient;

  Layer(const Case& c, double mean = 0.5) : layer(Options(c.sizes[1]).eps(1e-4).momentum(0.2)) {
    x = (at::randn(c.sizes) * 2 + mean).contiguous(c.format).set_requires_grad(true);
    if (c.adds) residual = at::randn(c.sizes).contiguous(c.format).set_requires_grad(true);
    gradient = at::randn(c.sizes);
    at::NoGradGuard no_grad;
    layer->weight.uniform_(0.5, 2), layer->bias.uniform_(-1, 1);
  }
  at::Tensor forward() { return layer(x, residual); }
  /// The result and all gradients.
  Tensors all() {
    Tensors inputs{x, layer->weight, layer->bias};
    if (residual.defined()) inputs.push_back(residual);
    const at::Tensor y = forward();
    auto all = torch::autograd::grad({y}, inputs, {gradient});
    all.push_back(y.detach());
    return all;
  }
};
struct Reference {
  Tensors all;
  at::Tensor running_mean, running_var;
  double
      nearest;  ///< distance of what ReLU is given from 0, where rounding may change its gradient
};
inline Reference in_double(const Layer& layer) {
  const auto wide = [](const at::Tensor& t) {
    return t.detach().to(at::kDouble).clone().set_requires_grad(true);
  };
  nn::BatchNorm2d norm(layer.layer->options);
  norm->to(at::kDouble);
  {
    at::NoGradGuard no_grad;
    norm->weight.copy_(layer.layer->weight), norm->bias.copy_(layer.layer->bias);
  }
  Tensors inputs{wide(layer.x), norm->weight, norm->bias};
  at::Tensor y = norm(inputs[0]);
  if (layer.residual.defined()) {
    inputs.push_back(wide(layer.residual));
    y = y + inputs.back();
  }
  Reference result;
  result.nearest = y.abs().min().item<double>();
  y = at::relu(y);
  result.all = torch::autograd::grad({y}, inputs, {layer.gradient.to(at::kDouble)});
  result.all.push_back(y.detach());
  result.running_mean = norm->running_mean, result.running_var = norm->running_var;
  return result;
}
/// A layer that rounding cannot bring to another side of the ReLU.
inline std::pair<Layer, Reference> clear_case(const Case& c) {
  for (std::uint64_t seed = 0;; ++seed) {
    torch::manual_seed(seed);
    Layer layer(c);
    Reference reference = in_double(layer);
    if (reference.nearest > 4e-6) return {layer, reference};
  }
}

}  // namespace test::bn_relu
