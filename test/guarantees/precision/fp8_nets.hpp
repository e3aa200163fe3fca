#pragma once
// Nets and helpers shared by the tests of FP8.
#include "guarantees/recipes/hand.hpp"

namespace guarantees::fp8 {

using F8 = Precision<FP8>;

inline double error(const at::Tensor& a, const at::Tensor& b) {
  return largest_difference(a.to(at::kDouble), b.to(at::kDouble)) / b.abs().max().item<double>();
}

/// Two linear layers in units, dropout, and a norm in between.
struct MiddleImpl : torch::nn::Module {
  torch::nn::Linear w{32, 32};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({32})};
  torch::nn::Dropout drop{0.2};
  MiddleImpl() {
    register_module("w", w), register_module("norm", norm), register_module("drop", drop);
  }
  at::Tensor forward(at::Tensor x) { return x + drop(at::gelu(w(norm(x)))); }
};
TORCH_MODULE(Middle);
struct NetImpl : torch::nn::Module {
  using units = Units<Middle>;
  torch::nn::Linear in{16, 32}, out{32, 16};
  Middle first, second;
  NetImpl() {
    register_module("in", in), register_module("out", out);
    register_module("first", first), register_module("second", second);
  }
  template <class Run>
  at::Tensor forward(Run& run, at::Tensor x) {
    return out(run(second, run(first, in(x))));
  }
};
TORCH_MODULE(Net);
inline Net net() {
  return seeded([] { return Net(); });
}
inline std::vector<Rows> batches(int n = 6) { return class_batches(n, 64, 16, 16); }

}  // namespace guarantees::fp8
