#pragma once
#include <cstdint>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include <ikebana/detail/torch.hpp>

namespace ikebana::modules {

/// What torch.nn.RMSNorm takes besides its shape, in its words.
struct RMSNormOptions {
  /// Added to the mean square; when not given, the distance from 1 to the next number of the type.
  std::optional<double> eps{};
  /// With a learnable weight, one number a feature, which begins at 1.
  bool elementwise_affine = true;
};

/// x / sqrt(mean(x^2) + eps) * weight over the last dimensions, which are `normalized_shape`.
/// Costs what LibTorch's operators for it cost: on a CPU it keeps about the input's bytes three
/// times for backward. Under autocast it computes in its input's type, as in PyTorch.
/// Sources: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019; torch.nn.RMSNorm.
struct RMSNormImpl : torch::nn::Module {
  explicit RMSNormImpl(std::vector<std::int64_t> shape, RMSNormOptions o = {})
      : normalized_shape(std::move(shape)), options(o) {
    const bool learns = options.elementwise_affine;
    weight = register_parameter("weight", learns ? at::ones(normalized_shape) : at::Tensor(),
                                /*requires_grad=*/learns);
  }
  explicit RMSNormImpl(std::int64_t width, RMSNormOptions o = {})
      : RMSNormImpl(std::vector<std::int64_t>{width}, o) {}

  /// (..., normalized_shape) to the same shape.
  at::Tensor forward(const at::Tensor& x) {
    const auto scale = weight.defined() ? std::optional(weight) : std::nullopt;
    return at::rms_norm(x, normalized_shape, scale, options.eps);
  }
  void pretty_print(std::ostream& out) const override {
    out << "ikebana::modules::RMSNorm(" << at::IntArrayRef(normalized_shape) << ')';
  }

  std::vector<std::int64_t> normalized_shape;
  RMSNormOptions options;
  at::Tensor weight;
};
TORCH_MODULE(RMSNorm);

}  // namespace ikebana::modules
