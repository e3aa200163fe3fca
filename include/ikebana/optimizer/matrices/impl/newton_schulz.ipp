#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/matrices/newton_schulz.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::int64_t NewtonSchulz::scratch(at::IntArrayRef sizes) {
  std::int64_t small = std::min(sizes[0], sizes[1]);
  return 3 * Scratch::bytes(sizes[0] * sizes[1], at::kBFloat16) +
         2 * Scratch::bytes(small * small, at::kBFloat16) + Scratch::bytes(1, at::kBFloat16);
}

IKEBANA_INLINE NewtonSchulz::NewtonSchulz(at::IntArrayRef sizes, Scratch& scratch)
    : transposed_(sizes[0] > sizes[1]), start_(scratch.allocate(sizes, at::kBFloat16)) {
  std::int64_t small = std::min(sizes[0], sizes[1]), large = std::max(sizes[0], sizes[1]);
  for (at::Tensor* t : {&current_, &next_}) *t = scratch.allocate({small, large}, at::kBFloat16);
  for (at::Tensor* t : {&gram_, &polynomial_}) *t = scratch.allocate({small, small}, at::kBFloat16);
  norm_ = scratch.allocate({}, at::kBFloat16);
}

IKEBANA_INLINE at::Tensor NewtonSchulz::operator()(const at::Tensor& matrix,
                                                   const std::array<double, 3>& coefficients,
                                                   std::int64_t steps, double eps) {
  start_.copy_(matrix);
  at::Tensor x = transposed_ ? start_.t() : start_;
  at::linalg_vector_norm_out(norm_, x, 2).clamp_min_(eps);
  x.div_(norm_);
  const auto& [a, b, c] = coefficients;
  for (std::int64_t i = 0; i < steps; ++i) {
    at::mm_out(gram_, x, x.t());
    at::addmm_out(polynomial_, gram_, gram_, gram_, b, c);
    at::addmm_out(next_, x, polynomial_, x, a);
    x = next_;
    std::swap(current_, next_);
  }
  return transposed_ ? x.t() : x;
}

}  // namespace ikebana::detail
