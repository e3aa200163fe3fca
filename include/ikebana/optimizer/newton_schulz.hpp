#pragma once
// The orthogonal matrix nearest to another, roughly, by matrix products alone.
#include <array>
#include <ikebana/optimizer/scratch.hpp>

namespace ikebana::detail {

/// Newton-Schulz iteration with a quintic polynomial in BFloat16: of G = U S V^T about U V^T, its
/// singular values between 0.7 and 1.2 (the coefficients trade exactness for few steps). The same
/// operators on the same layouts as torch.optim.Muon, so the same bits; works in scratch. Source:
/// Jordan et al., kellerjordan.github.io/posts/muon.
class NewtonSchulz {
 public:
  static std::int64_t scratch(const at::Tensor& p) {
    std::int64_t small = std::min(p.size(0), p.size(1));
    return 3 * Scratch::bytes(p.numel(), at::kBFloat16) +
           2 * Scratch::bytes(small * small, at::kBFloat16) + Scratch::bytes(1, at::kBFloat16);
  }

  NewtonSchulz(const at::Tensor& p, Scratch& scratch)
      : tall_(p.size(0) > p.size(1)), start_(scratch.take(p.sizes(), at::kBFloat16)) {
    std::int64_t small = std::min(p.size(0), p.size(1)), large = std::max(p.size(0), p.size(1));
    for (at::Tensor* t : {&now_, &next_}) *t = scratch.take({small, large}, at::kBFloat16);
    for (at::Tensor* t : {&gram_, &polynomial_}) *t = scratch.take({small, small}, at::kBFloat16);
    norm_ = scratch.take({}, at::kBFloat16);
  }
  /// In the shape of `matrix`; valid until the scratch is cleared.
  at::Tensor operator()(const at::Tensor& matrix, const std::array<double, 3>& coefficients,
                        std::int64_t steps, double eps) {
    start_.copy_(matrix);
    at::Tensor x = tall_ ? start_.t() : start_;
    at::linalg_vector_norm_out(norm_, x, 2).clamp_min_(eps);
    x.div_(norm_);
    const auto& [a, b, c] = coefficients;
    for (std::int64_t i = 0; i < steps; ++i) {
      at::mm_out(gram_, x, x.t());
      at::addmm_out(polynomial_, gram_, gram_, gram_, b, c);
      at::addmm_out(next_, x, polynomial_, x, a);
      x = next_;
      std::swap(now_, next_);
    }
    return tall_ ? x.t() : x;
  }

 private:
  bool tall_;
  at::Tensor start_, now_, next_, gram_, polynomial_, norm_;
};

}  // namespace ikebana::detail
