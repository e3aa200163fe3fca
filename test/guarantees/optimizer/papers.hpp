#pragma once
// The optimizers as in their papers, one parameter at a time, in double precision.
#include "alone.hpp"

namespace guarantees::papers {

/// A parameter, its state by name, and the step count.
struct Paper {
  at::Tensor p;
  std::map<std::string, at::Tensor> state;
  int t = 0;  // steps, including this one
  double lr = 0, weight_decay = 0;

  at::Tensor& of(const std::string& name, at::IntArrayRef sizes) {
    auto [found, is_new] = state.try_emplace(name);
    if (is_new) found->second = at::zeros(sizes, at::kDouble);
    return found->second;
  }
  at::Tensor& of(const std::string& name) { return of(name, p.sizes()); }
  double size() const { return std::sqrt(p.pow(2).mean().item<double>()); }
};

inline void update(const Lion& v, Paper& x, const at::Tensor& g) {
  at::Tensor& m = x.of("m");
  at::Tensor c = v.betas[0] * m + (1 - v.betas[0]) * g;
  x.p = x.p - x.lr * (c.sign() + x.weight_decay * x.p);
  m = v.betas[1] * m + (1 - v.betas[1]) * g;
}

inline void update(const Adagrad& v, Paper& x, at::Tensor g) {
  at::Tensor& sum = x.of("sum");
  if (x.t == 1) sum = sum + v.initial_accumulator_value;
  g = g + x.weight_decay * x.p;
  sum = sum + g * g;
  x.p = x.p - x.lr / (1 + (x.t - 1) * v.lr_decay) * g / (sum.sqrt() + v.eps);
}

/// Returns the change of AdamW and of LAMB, before the rate.
inline at::Tensor adam_change(const auto& v, Paper& x, const at::Tensor& g) {
  at::Tensor &m = x.of("m"), &s = x.of("v");
  m = v.betas[0] * m + (1 - v.betas[0]) * g;
  s = v.betas[1] * s + (1 - v.betas[1]) * g * g;
  at::Tensor first = m / (1 - std::pow(v.betas[0], x.t));
  at::Tensor second = s / (1 - std::pow(v.betas[1], x.t));
  return first / (second.sqrt() + v.eps) + x.weight_decay * x.p;
}
inline void update(const AdamW& v, Paper& x, const at::Tensor& g) {
  x.p = x.p - x.lr * adam_change(v, x, g);
}

inline void update(const LAMB& v, Paper& x, const at::Tensor& g) {
  at::Tensor change = adam_change(v, x, g);
  const double norm = x.p.norm().item<double>(), of_change = change.norm().item<double>();
  x.p = x.p - x.lr * (norm > 0 && of_change > 0 ? norm / of_change : 1) * change;
}

/// As PyTorch: each step has the rate and the weight of the average of the step before.
inline void update(const ASGD& v, Paper& x, const at::Tensor& g) {
  at::Tensor &average = x.of("ax"), &eta = x.of("eta", {});
  const double now = x.t == 1 ? x.lr : eta.item<double>();
  const double weight = x.t == 1 ? 1 : 1 / std::max(1.0, x.t - 1 - v.t0);
  x.p = x.p * (1 - v.lambd * now) - now * (g + x.weight_decay * x.p);
  average = average + weight * (x.p - average);
  eta = at::full({}, x.lr / std::pow(1 + v.lambd * x.lr * x.t, v.alpha), at::kDouble);
}

/// Algorithm 5 of the paper, with PyTorch's weight decay and lower bounds.
inline void update(const Adafactor& v, Paper& x, const at::Tensor& g) {
  double weight = std::pow(x.t, v.beta2_decay), eps = v.eps.first.value_or(0x1p-52);
  double alpha = std::max(v.eps.second, x.size()) * std::min(x.lr, 1 / std::sqrt(x.t));
  at::Tensor squares = g * g, second;
  if (x.p.dim() < 2) {
    at::Tensor& all = x.of("v");
    second = all = (1 - weight) * all + weight * squares;
  } else {
    auto rows = squares.mean(-1, true), columns = squares.mean(-2, true);
    at::Tensor &r = x.of("r", rows.sizes()), &c = x.of("c", columns.sizes());
    r = (1 - weight) * r + weight * rows;
    c = (1 - weight) * c + weight * columns;
    second = r * c / r.mean(-2, true);
  }
  at::Tensor u = g / second.clamp_min(eps * eps).sqrt();
  double clip = std::max(1.0, std::sqrt(u.pow(2).mean().item<double>()) / v.d);
  x.p = x.p * (1 - x.lr * x.weight_decay) - alpha * u / clip;
}

/// Applies the polynomial to the singular values, in double precision, instead of to matrices.
inline at::Tensor orthogonal(const Muon& v, const at::Tensor& g) {
  auto [u, s, vh] = at::linalg_svd(g / g.norm(), /*full_matrices=*/false);
  const auto& [a, b, c] = v.ns_coefficients;
  for (int i = 0; i < v.ns_steps; ++i) s = a * s + b * s.pow(3) + c * s.pow(5);
  return at::matmul(u * s, vh);
}
inline void update(const Muon& v, Paper& x, const at::Tensor& g) {
  if (x.p.dim() != 2) return update(v.otherwise, x, g);
  at::Tensor& m = x.of("m");
  m = v.momentum * m + (1 - v.momentum) * g;
  at::Tensor o = orthogonal(v, v.nesterov ? v.momentum * m + (1 - v.momentum) * g : m);
  auto rows = static_cast<double>(g.size(0)), columns = static_cast<double>(g.size(1));
  double fit = v.adjust_lr_fn == AdjustLR::Original ? std::sqrt(std::max(1.0, rows / columns))
                                                    : 0.2 * std::sqrt(std::max(rows, columns));
  x.p = x.p * (1 - x.lr * x.weight_decay) - x.lr * fit * o;
}

/// Adam on the rows that have a gradient, as in PyTorch: eps is added before the bias correction.
inline void update(const SparseAdam& v, Paper& x, const at::Tensor& g) {
  if (!g.is_sparse()) return update(v.otherwise, x, g);
  at::Tensor &m = x.of("m"), &s = x.of("v");
  at::Tensor rows = g._indices()[0], dense = g.to_dense();
  double first = 1 - std::pow(v.betas[0], x.t), second = 1 - std::pow(v.betas[1], x.t);
  for (std::int64_t i = 0; i < rows.numel(); ++i) {
    auto r = rows[i].item<std::int64_t>();
    m[r] = v.betas[0] * m[r] + (1 - v.betas[0]) * dense[r];
    s[r] = v.betas[1] * s[r] + (1 - v.betas[1]) * dense[r] * dense[r];
    x.p[r] -= x.lr * std::sqrt(second) / first * m[r] / (s[r].sqrt() + v.eps);
  }
}

}  // namespace guarantees::papers
