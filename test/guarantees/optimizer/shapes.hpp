#pragma once
#include "guarantees/guarantees.hpp"

namespace guarantees {

/// Parameters of several shapes. The gradient of each is `pull`, whatever its value.
struct ShapesImpl : torch::nn::Module {
  at::Tensor conv, weight, bias, gain, lonely;
  explicit ShapesImpl(at::ScalarType type, bool mixed = false) {
    torch::manual_seed(9);
    auto last = at::MemoryFormat::ChannelsLast;
    conv = register_parameter("conv_weight", torch::randn({3, 4, 2, 2}, type).contiguous(last));
    weight = register_parameter("linear_weight", torch::randn({5, 4}, type));
    bias = register_parameter("linear_bias", torch::randn({5}, mixed ? at::kFloat : type));
    gain = register_parameter("norm_weight", torch::randn({4}, mixed ? at::kFloat : type));
    lonely = register_parameter("lonely", torch::randn({}, type));
  }
};
TORCH_MODULE(Shapes);

/// Says whether parameter `i` has a gradient in step `s`; `pull` returns it.
using Plan = std::function<bool(std::size_t i, int s)>;
inline bool always(std::size_t, int) { return true; }
inline at::Tensor pull(const at::Tensor& p, std::size_t i, int s) {
  torch::manual_seed(100 * s + static_cast<std::uint64_t>(i));
  return torch::randn(p.sizes(), p.options().requires_grad(false)).mul_(s % 5 == 4 ? 1e-3 : 1.0);
}

struct Pulls {
  std::shared_ptr<int> now = std::make_shared<int>(0);
  Plan plan = always;
  double sign = 1;
  template <class Run>
  Loss operator()(Run&, Shapes& model, const at::Tensor&) {
    at::Tensor sum;
    auto all = model->parameters();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!plan(i, *now)) continue;
      auto part = (all[i] * pull(all[i], i, *now)).sum().to(at::kDouble) * sign;
      sum = sum.defined() ? sum + part : part;
    }
    ++*now;
    return {sum, 1};
  }
};

}  // namespace guarantees
