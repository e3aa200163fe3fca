#pragma once
// modules::linear: at::linear, and within `generate` the faster of MKL and oneDNN for a few rows.
#include <ikebana/detail/torch.hpp>
#include <optional>

namespace ikebana::detail {

/// oneDNN's product of dense FP32 matrices, which LibTorch has for torch.compile. Empty where this
/// LibTorch has none.
const std::optional<c10::OperatorHandle>& onednn_linear();
/// MKL's products of a few rows are not made for processors of AMD.
bool is_amd();
/// While it exists, this thread generates text: no gradient follows, and no recompute that would
/// have to give the same bits.
class GeneratingScope {
 public:
  GeneratingScope() { ++depth(); }
  ~GeneratingScope() { --depth(); }
  GeneratingScope(const GeneratingScope&) = delete;
  GeneratingScope& operator=(const GeneratingScope&) = delete;
  static bool is_open() { return depth() > 0; }

 private:
  static int& depth();
};

at::Tensor linear_by_onednn(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

}  // namespace ikebana::detail

namespace ikebana::modules {

/// at::linear: x (..., K), weight (N, K), bias (N) or none, to (..., N). Within
/// `modules::generate` 1 to 8 rows of FP32 on a processor of AMD are multiplied by oneDNN where the
/// weight is large, as in the head of a language model: up to nearly three times as fast as MKL
/// there. All else is at::linear, to the bit; the two libraries differ by rounding. Throws what
/// at::linear throws.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/linear.ipp>
#endif
