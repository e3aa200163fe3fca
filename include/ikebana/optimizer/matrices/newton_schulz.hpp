#pragma once
// Approximates the nearest orthogonal matrix by matrix products only.
#include <array>
#include <ikebana/optimizer/engine/scratch.hpp>

namespace ikebana::detail {

/// Newton-Schulz iteration with a quintic polynomial in BFloat16: makes of G = U S V^T a matrix
/// near U V^T, with singular values between 0.7 and 1.2; the coefficients trade accuracy for few
/// steps. It applies the same operators to the same layouts as torch.optim.Muon, so it gives the
/// same bits. Works in scratch memory. Source: Jordan et al., kellerjordan.github.io/posts/muon.
class NewtonSchulz {
 public:
  /// Returns the bytes for a matrix of these sizes.
  static std::int64_t scratch(at::IntArrayRef sizes);

  NewtonSchulz(at::IntArrayRef sizes, Scratch& scratch);
  /// The result has the shape of `matrix` and is valid until the scratch is cleared.
  at::Tensor operator()(const at::Tensor& matrix, const std::array<double, 3>& coefficients,
                        std::int64_t steps, double eps);

 private:
  bool transposed_;
  at::Tensor start_, current_, next_, gram_, polynomial_, norm_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/matrices/impl/newton_schulz.ipp>
#endif
