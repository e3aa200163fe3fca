#pragma once
// Defines the reference: the loop that an engineer writes by hand with the same operators, compared
// to the bit.
#include "guarantees/guarantees.hpp"

#include <ATen/autocast_mode.h>

namespace guarantees::hand {

/// Autocast on the CPU for the object's lifetime, with LibTorch's own functions.
class Autocast {
 public:
  explicit Autocast(at::ScalarType type) : on_(type != at::kFloat) {
    if (!on_) return;
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, type);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!on_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_;
};

/// Forward and backward with products of 16 bits as a recipe has them: by default, or as `way`
/// says.
class Products {
 public:
  explicit Products(at::ScalarType type, CPUProducts way = CPUProducts::Fastest)
      : wide_(ikebana::detail::HalfProducts("by hand", at::kCPU, type).in_fp32(way)) {}

 private:
  bridge::WideProductsScope wide_;
};

/// Makes one fused call for the parameters that decay and one for the others.
class FusedAdamW {
 public:
  FusedAdamW(torch::nn::Module& module, double lr, bool groups) : lr_(lr) {
    std::array<double, 2> decay = {1e-2, 0.0};
    for (const auto& p : module.parameters()) {
      Group& group = groups_[groups && p.dim() <= 1 ? 1 : 0];
      group.parameters.push_back(p);
      group.first.push_back(at::zeros_like(p)), group.second.push_back(at::zeros_like(p));
      group.steps.push_back(at::zeros({}));
    }
    for (int i : {0, 1}) groups_[i].decay = decay[i];
  }
  void update(const std::optional<at::Tensor>& divisor = {}) {
    torch::NoGradGuard no_grad;
    for (Group& g : groups_) {
      Tensors gradients;
      for (const auto& p : g.parameters) gradients.push_back(p.grad());
      if (gradients.empty()) continue;
      at::_foreach_add_(g.steps, 1);
      at::_fused_adamw_(g.parameters, gradients, g.first, g.second, {}, g.steps, lr_, 0.9, 0.999,
                        g.decay, 1e-8, false, false, divisor, {});
    }
  }
  Tensors gradients() const {
    Tensors all;
    for (const Group& g : groups_)
      for (const auto& p : g.parameters) all.push_back(p.grad());
    return all;
  }

 private:
  struct Group {
    Tensors parameters, first, second, steps;
    double decay = 0;
  };
  double lr_;
  std::array<Group, 2> groups_;
};

/// Returns max(1, norm / max_norm) of gradients that are still to be divided by `scale`, and the
/// norm.
inline std::pair<at::Tensor, at::Tensor> clipping(const Tensors& gradients, const at::Tensor& scale,
                                                  double max_norm) {
  auto norms = at::stack(at::_foreach_norm(gradients, 2));
  auto type = norms.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  auto norm = at::linalg_vector_norm(norms, 2).to(type) / scale;
  return {scale * ((norm + 1e-6) / max_norm).clamp_min(1), norm};
}

/// torch.amp.GradScaler as a plain computation.
struct Scaler {
  double scale, growth = 2, backoff = 0.5;
  int interval, good = 0;
  double floor;
  void after(bool overflow) {
    if (overflow) scale = std::max(floor, scale * backoff), good = 0;
    else if (++good == interval) scale *= growth, good = 0;
  }
};

}  // namespace guarantees::hand
