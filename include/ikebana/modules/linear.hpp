#pragma once
// Defines modules::linear, which is at::linear, or within `generate` the faster of MKL and oneDNN
// for a few rows.
#include <ikebana/detail/torch.hpp>
#include <optional>

namespace ikebana::detail {

/// Returns oneDNN's product of dense FP32 matrices, which LibTorch has for torch.compile; no value
/// if this LibTorch does not have it.
const std::optional<c10::OperatorHandle>& onednn_linear();
/// Returns whether the processor is AMD's, for which MKL's products of a few rows are not
/// optimised.
bool is_amd();
/// RAII: this thread generates text. No gradient follows, and no recompute that would need the same
/// bits.
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

/// Computes at::linear. Takes x (..., K), weight (N, K), and optionally bias (N). Returns (..., N).
/// Within `modules::generate`, on a processor of AMD, oneDNN multiplies 1 to 8 rows of FP32 if the
/// weight is large, as in the head of a language model: up to nearly three times as fast as MKL.
/// Everything else is at::linear, to the bit. The two libraries differ by rounding. Throws what
/// at::linear throws.
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias = {});

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/linear.ipp>
#endif
