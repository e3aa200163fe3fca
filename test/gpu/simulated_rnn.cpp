// Defines the fused cells of LSTM and GRU, which LibTorch calls on accelerators and which the CPU
// does not have.
#include "simulated_state.hpp"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace simulated {

namespace {

using Maybe = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor with_bias(const at::Tensor& gates, const Maybe& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

/// Returns the workspace of backward, which holds the gates: input, forget, cell, output.
Three lstm(const at::Tensor& input, const at::Tensor& hidden, const at::Tensor& cx,
           const Maybe& input_bias, const Maybe& hidden_bias) {
  auto gates = (with_bias(hidden, hidden_bias) + with_bias(input, input_bias)).chunk(4, 1);
  const auto i = gates[0].sigmoid(), f = gates[1].sigmoid(), g = gates[2].tanh(),
             o = gates[3].sigmoid();
  const auto cy = f * cx + i * g;
  return {o * cy.tanh(), cy, at::cat({i, f, g, o}, 1)};
}

Three lstm_backward(const Maybe& grad_hy, const Maybe& grad_cy, const at::Tensor& cx,
                    const at::Tensor& cy, const at::Tensor& workspace, bool has_bias) {
  const auto gates = workspace.chunk(4, 1);
  const auto &i = gates[0], &f = gates[1], &g = gates[2], &o = gates[3];
  const auto tanh = cy.tanh();
  const auto hy = grad_hy && grad_hy->defined() ? *grad_hy : at::zeros_like(cx);
  auto c = hy * o * (1 - tanh * tanh);
  if (grad_cy && grad_cy->defined()) c = c + *grad_cy;
  const auto grad = at::cat(
      {c * g * i * (1 - i), c * cx * f * (1 - f), c * i * (1 - g * g), hy * tanh * o * (1 - o)}, 1);
  return {grad, c * f, has_bias ? grad.sum(0) : at::Tensor()};
}

/// The workspace of backward holds reset, update and new gate, the state, and the new gate's share
/// of the state.
std::tuple<at::Tensor, at::Tensor> gru(const at::Tensor& input, const at::Tensor& hidden,
                                       const at::Tensor& hx, const Maybe& input_bias,
                                       const Maybe& hidden_bias) {
  const auto a = with_bias(input, input_bias).chunk(3, 1);
  const auto b = with_bias(hidden, hidden_bias).chunk(3, 1);
  const auto r = (a[0] + b[0]).sigmoid(), z = (a[1] + b[1]).sigmoid();
  const auto n = (a[2] + r * b[2]).tanh();
  return {(hx - n) * z + n, at::cat({r, z, n, hx, b[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_backward(
    const at::Tensor& grad, const at::Tensor& workspace, bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const auto &r = saved[0], &z = saved[1], &n = saved[2], &hx = saved[3], &h = saved[4];
  const auto grad_n = grad * (1 - z) * (1 - n * n);
  const auto grad_z = grad * (hx - n) * z * (1 - z);
  const auto grad_r = grad_n * h * r * (1 - r);
  const auto input = at::cat({grad_r, grad_z, grad_n}, 1);
  const auto hidden = at::cat({grad_r, grad_z, grad_n * r}, 1);
  const auto bias = [&](const at::Tensor& t) { return has_bias ? t.sum(0) : at::Tensor(); };
  return {input, hidden, grad * z, bias(input), bias(hidden)};
}

}  // namespace

void register_rnn() {
  static torch::Library m(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__,
                          __LINE__);
  m.impl("_thnn_fused_lstm_cell", TORCH_FN(lstm));
  m.impl("_thnn_fused_lstm_cell_backward_impl", TORCH_FN(lstm_backward));
  m.impl("_thnn_fused_gru_cell", TORCH_FN(gru));
  m.impl("_thnn_fused_gru_cell_backward", TORCH_FN(gru_backward));
}

}  // namespace simulated
