#pragma once
// modules::RMSNorm: torch.nn.RMSNorm, with a fast function for the CPU.
#include <cstdint>
#include <ikebana/detail/form.hpp>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// Computes the RMSNorm of rows on the CPU. LibTorch's RMSNorm is composed of several operators
/// there. Its backward calls LayerNorm's kernel with a mean of 0, and adds the term that the kernel
/// subtracts for the mean. Keeps the input and one element per row.
struct RMSNormOfRows : torch::autograd::Function<RMSNormOfRows> {
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  /// Takes x (N, E), and optionally weight (E).
  static at::Tensor forward(Context* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& weight, double eps);

  static Tensors backward(Context* context, const Tensors& gradients);

 private:
  using Pair = std::pair<at::Tensor, at::Tensor>;

  static at::ScalarType wide_dtype(const at::Tensor& x);
  static Pair first_backward(const at::Tensor& g, const at::Tensor& x, const at::Tensor& weight,
                             const at::Tensor& rstd);
  // Computes the derivative for create_graph, by operators that autograd can differentiate.
  static Pair differentiable_backward(const at::Tensor& g, const at::Tensor& x, const at::Tensor& w,
                                      double eps);
};

}  // namespace ikebana::detail

namespace ikebana::modules {

/// The options of torch.nn.RMSNorm besides its shape, with its names.
struct RMSNormOptions {
  /// Number that is added to the mean square; if not given, the machine epsilon of FP32, or of FP64
  /// for FP64.
  std::optional<double> eps{};
  /// If true, the layer has a learnable weight with one element per feature, initially 1.
  bool elementwise_affine = true;
};

/// Computes x / sqrt(mean(x^2) + eps) * weight over the last dimensions, which are
/// `normalized_shape`. Costs about as much as LayerNorm on the CPU, and keeps its input for
/// backward; on other devices it calls LibTorch's rms_norm. Computes in FP32 (FP64 for FP64) and
/// returns its input's dtype, also under autocast. Sources: Zhang and Sennrich, Root Mean Square
/// Layer Normalization, 2019; torch.nn.RMSNorm.
struct RMSNormImpl : torch::nn::Module {
  /// Normalises over the last dimensions of an input, which have this shape.
  explicit RMSNormImpl(std::vector<std::int64_t> shape, RMSNormOptions o = {});
  /// Normalises over the last dimension, of `width` elements.
  explicit RMSNormImpl(std::int64_t width, RMSNormOptions o = {})
      : RMSNormImpl(std::vector<std::int64_t>{width}, o) {}

  /// Takes x (..., normalized_shape); the result has the same shape.
  at::Tensor forward(const at::Tensor& x);
  /// Writes the layer as printing a model shows it.
  IKEBANA_INLINE void pretty_print(std::ostream& out) const override;

  std::vector<std::int64_t> normalized_shape;  ///< the sizes of the last dimensions
  RMSNormOptions options;                      ///< the options as they were given
  at::Tensor weight;                           ///< undefined without elementwise_affine

 private:
  // Returns whether an input fits. For other inputs, LibTorch's rms_norm throws its own error.
  bool fits(const at::Tensor& x) const;
};
TORCH_MODULE(RMSNorm);

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/rms_norm.ipp>
#endif
