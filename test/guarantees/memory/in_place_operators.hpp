#pragma once
// Defines operators of two tensors of 4 x 4, with which writes in place are tried.
#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>

namespace guarantees::in_place_table {

using Operator = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& w)>;

using Operators = std::map<std::string, Operator>;
inline const Operators elementwise{
    {"add", [](auto& x, auto& w) { return x + w; }},
    {"sub with a factor", [](auto& x, auto& w) { return at::sub(x, w, 3); }},
    {"mul", [](auto& x, auto& w) { return x * w; }},
    {"mul by a number", [](auto& x, auto&) { return x * 3; }},
    {"div", [](auto& x, auto& w) { return x / w; }},
    {"addcmul", [](auto& x, auto& w) { return at::addcmul(x, x, w); }},
    {"relu", [](auto& x, auto&) { return at::relu(x); }},
    {"relu_", [](auto& x, auto&) { return x.mul(1).relu_(); }},
    {"sigmoid", [](auto& x, auto&) { return at::sigmoid(x); }},
    {"sigmoid_", [](auto& x, auto&) { return x.mul(1).sigmoid_(); }},
    {"tanh", [](auto& x, auto&) { return at::tanh(x); }},
    {"exp", [](auto& x, auto&) { return at::exp(x); }},
    {"exp_", [](auto& x, auto&) { return x.mul(1).exp_(); }},
    {"sqrt", [](auto& x, auto&) { return at::sqrt(x.abs() + 1); }},
    {"pow", [](auto& x, auto&) { return at::pow(x, 3); }},
    {"gelu", [](auto& x, auto&) { return at::gelu(x); }},
    {"leaky_relu_",
     [](auto& x, auto&) {
       at::Tensor y = x.mul(1);
       return at::leaky_relu_(y, 0.1);
     }},
    {"hardtanh", [](auto& x, auto&) { return at::hardtanh(x); }},
    {"clamp", [](auto& x, auto&) { return at::clamp(x, -1, 1); }},
    {"abs", [](auto& x, auto&) { return at::abs(x); }},
    {"where", [](auto& x, auto& w) { return at::where(w > 0, x, w); }},
};
inline const Operators layers{
    {"softmax", [](auto& x, auto&) { return at::softmax(x, 1); }},
    {"log_softmax", [](auto& x, auto&) { return at::log_softmax(x, 1); }},
    {"linear", [](auto& x, auto& w) { return at::linear(x, w); }},
    {"linear of three dimensions",
     [](auto& x, auto& w) { return at::linear(x.view({2, 2, 4}), w); }},
    {"matmul", [](auto& x, auto& w) { return at::matmul(x, w); }},
    {"bmm", [](auto& x, auto& w) { return at::bmm(x.view({1, 4, 4}), w.view({1, 4, 4})); }},
    {"conv",
     [](auto& x, auto& w) {
       return at::conv2d(x.view({1, 1, 4, 4}),
                         w.narrow(0, 0, 2).narrow(1, 0, 2).view({1, 1, 2, 2}));
     }},
    {"layer_norm", [](auto& x, auto& w) { return at::layer_norm(x, {4}, w.select(0, 0)); }},
    {"batch_norm",
     [](auto& x, auto& w) {
       return at::batch_norm(x, w.select(0, 0), {}, {}, {}, true, 0.1, 1e-5, false);
     }},
    {"dropout", [](auto& x, auto&) { return at::dropout(x, 0.5, true); }},
    {"scaled_dot_product_attention",
     [](auto& x, auto& w) {
       return at::scaled_dot_product_attention(x.view({1, 1, 4, 4}), w.view({1, 1, 4, 4}),
                                               w.view({1, 1, 4, 4}));
     }},
};
inline const Operators others{
    {"max", [](auto& x, auto&) { return std::get<0>(x.max(1)); }},
    {"amax", [](auto& x, auto&) { return x.amax(1); }},
    {"cumsum", [](auto& x, auto&) { return x.cumsum(0); }},
    {"cumprod", [](auto& x, auto&) { return x.cumprod(0); }},
    {"prod", [](auto& x, auto&) { return x.prod(); }},
    {"sum", [](auto& x, auto&) { return x.sum(0); }},
    {"mean", [](auto& x, auto&) { return x.mean(); }},
    {"norm", [](auto& x, auto&) { return x.norm(); }},
    {"var", [](auto& x, auto&) { return x.var(0); }},
    {"sort", [](auto& x, auto&) { return std::get<0>(x.sort(0)); }},
    {"view", [](auto& x, auto&) { return x.view({16}); }},
    {"transpose", [](auto& x, auto&) { return x.t(); }},
    {"expand", [](auto& x, auto&) { return x.unsqueeze(0).expand({3, 4, 4}); }},
    {"select of a product", [](auto& x, auto& w) { return (x * w).select(0, 1); }},
    {"cat", [](auto& x, auto& w) { return at::cat({x, w}); }},
    {"index_select", [](auto& x, auto&) { return x.index_select(0, at::arange(2)); }},
    {"clone", [](auto& x, auto&) { return x.clone(); }},
    {"to another dtype", [](auto& x, auto&) { return x.to(at::kDouble); }},
    {"detach", [](auto& x, auto& w) { return x.detach() * w; }},
    {"mse_loss", [](auto& x, auto& w) { return at::mse_loss(x, w); }},
    {"cross_entropy", [](auto& x, auto&) { return at::cross_entropy_loss(x, at::arange(4)); }},
};

}  // namespace guarantees::in_place_table
