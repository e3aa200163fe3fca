#pragma once
// Defines a linear layer that computes its three matrix products in FP8. Forward is in E4M3, and
// gradients are in E5M2.
#include <ikebana/bridge/linear_hook.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/precision/fp8_scaling.hpp>

namespace ikebana::detail {

/// Returns a copy of the matrix in column-major layout.
inline at::Tensor column_major(const at::Tensor& matrix) { return matrix.t().contiguous().t(); }
/// Returns a * b of FP8 matrices. Kernels of GPUs take `a` only in row-major layout, and `b` only
/// in column-major layout.
at::Tensor fp8_product(const Quantized& a, const Quantized& b, at::ScalarType type,
                       const std::optional<at::Tensor>& bias = {});

/// A layer and the scales of its tensors. Autograd graphs hold it, and may outlive the trainer.
struct FP8Layer : torch::CustomClassHolder {
  std::shared_ptr<FP8Scales> scales;
  std::int64_t layer;
  FP8Layer(std::shared_ptr<FP8Scales> s, std::int64_t l) : scales(std::move(s)), layer(l) {}

  Quantized quantized(FP8Role role, const at::Tensor& x, bool record) const;
};

/// y = x W^T + b of matrices; y is BF16. Saves the input in FP8, and the weight itself.
struct FP8Linear : torch::autograd::Function<FP8Linear> {
  using Context = torch::autograd::AutogradContext;
  using Layer = c10::intrusive_ptr<FP8Layer>;

  static at::Tensor forward(Context* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const Layer& layer, bool record);
  static torch::autograd::variable_list backward(Context* context,
                                                 torch::autograd::variable_list gradients);

 private:
  /// Casts the weight again with the scale of its forward, which saves keeping it in FP8.
  static at::Tensor input_gradient(Context* context, const Quantized& g, const at::Tensor& weight,
                                   const at::Tensor& scale);
};

/// The linear layers of a trainer that compute in FP8: their weight is a parameter of the model,
/// and their sizes are multiples of 16. LibTorch computes all other layers.
class FP8Layers : public bridge::LinearHookV1 {
 public:
  FP8Layers(const FP8Scales::Scaling& scaling, const UnitTable& table, c10::Device device);
  IKEBANA_INLINE std::optional<at::Tensor> linear(const at::Tensor& input, const at::Tensor& weight,
                                                  const std::optional<at::Tensor>& bias) override;

  std::shared_ptr<FP8Scales> scales;

 private:
  static bool has_fp8_sizes(const at::Tensor& input, const at::Tensor& weight);

  ska::flat_hash_map<const c10::TensorImpl*, std::int64_t> layers_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/precision/impl/fp8_linear.ipp>
#endif
