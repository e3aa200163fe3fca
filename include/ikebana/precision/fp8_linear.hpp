#pragma once
// A linear layer that computes its three matrix products in FP8: E4M3 in forward, E5M2 gradients.
#include <ikebana/bridge/linear_hook.hpp>
#include <ikebana/precision/fp8_scaling.hpp>

namespace ikebana::detail {

/// The same matrix in column-major layout.
inline at::Tensor column_major(const at::Tensor& matrix) { return matrix.t().contiguous().t(); }
/// a * b of FP8 matrices. Kernels of GPUs take `a` in row-major and `b` in column-major layout
/// only.
inline at::Tensor fp8_product(const Quantized& a, const Quantized& b, at::ScalarType type,
                              const std::optional<at::Tensor>& bias = {}) {
  return at::_scaled_mm(a.values.contiguous(), column_major(b.values), a.inverse, b.inverse, bias,
                        {}, type);
}

/// A layer and the scales of its tensors. Autograd graphs hold it, and may outlive the trainer.
/// These are templates, so that only files whose recipe has Precision<FP8> compile them.
template <class = void>
struct FP8Layer : torch::CustomClassHolder {
  std::shared_ptr<FP8Scales> scales;
  std::int64_t layer;
  FP8Layer(std::shared_ptr<FP8Scales> s, std::int64_t l) : scales(std::move(s)), layer(l) {}

  Quantized quantized(FP8Role role, const at::Tensor& x, bool record) const {
    return scales->quantized(layer, role, x.to(at::kFloat), record);
  }
};

/// y = x W^T + b of matrices; y is BF16. Saves the input in FP8, and the weight itself.
template <class = void>
struct FP8Linear : torch::autograd::Function<FP8Linear<>> {
  using Context = torch::autograd::AutogradContext;
  using Layer = c10::intrusive_ptr<FP8Layer<>>;

  static at::Tensor forward(Context* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const Layer& layer,
                            bool record) {
    Quantized x = layer->quantized(FP8Role::Input, input, record);
    Quantized w = layer->quantized(FP8Role::Weight, weight, record);
    std::optional<at::Tensor> b;
    if (bias) b = bias->to(at::kBFloat16);
    context->save_for_backward({x.values, x.inverse, weight, w.scale});
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["layer"] = c10::IValue::make_capsule(layer);
    context->saved_data["type"] = static_cast<std::int64_t>(input.scalar_type());
    return fp8_product(x, {w.values.t(), w.inverse, {}}, at::kBFloat16, b);
  }
  static torch::autograd::variable_list backward(Context* context,
                                                 torch::autograd::variable_list gradients) {
    if (at::GradMode::is_enabled())
      throw BadModel(
          "Precision<FP8>: gradients of gradients through a linear layer in FP8 are not defined. "
          "Use Precision<BF16>.");
    auto saved = context->get_saved_variables();
    const at::Tensor& weight = saved[2];
    auto capsule = context->saved_data["layer"].toCapsule();
    Quantized g =
        static_cast<FP8Layer<>&>(*capsule).quantized(FP8Role::Gradient, gradients[0], true);
    at::Tensor input, weight_gradient, bias_gradient;
    if (context->needs_input_grad(0)) input = input_gradient(context, g, weight, saved[3]);
    if (context->needs_input_grad(1)) {
      Quantized gt{g.values.t(), g.inverse, {}}, x{saved[0], saved[1], {}};
      weight_gradient = fp8_product(gt, x, at::kFloat).to(weight.scalar_type());
    }
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2))
      bias_gradient = gradients[0].sum(at::IntArrayRef{0}, false, at::kFloat);
    return {input, weight_gradient, bias_gradient, {}, {}};
  }

 private:
  /// Casts the weight again with the scale of its forward, which saves keeping it in FP8.
  static at::Tensor input_gradient(Context* context, const Quantized& g, const at::Tensor& weight,
                                   const at::Tensor& scale) {
    Quantized w = quantize(weight.to(at::kFloat), scale, FP8Role::Weight);
    auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    return fp8_product(g, {w.values, w.inverse, {}}, at::kBFloat16).to(type);
  }
};

/// The linear layers of a trainer that are computed in FP8: those whose weight is a parameter of
/// the model and whose sizes are multiples of 16. LibTorch computes all others.
template <class = void>
class FP8Layers : public bridge::LinearHookV1 {
 public:
  FP8Layers(const FP8Scales::Scaling& scaling, const UnitTable& table, c10::Device device) {
    for (const Unit& unit : table.units())
      for (const auto& p : unit.parameters)
        if (p.dim() == 2 && p.size(0) % 16 == 0 && p.size(1) % 16 == 0)
          layers_.emplace(p.unsafeGetTensorImpl(), static_cast<std::int64_t>(layers_.size()));
    auto count = static_cast<std::int64_t>(layers_.size());
    scales = std::make_shared<FP8Scales>(scaling, count, device);
  }
  std::optional<at::Tensor> linear(const at::Tensor& input, const at::Tensor& weight,
                                   const std::optional<at::Tensor>& bias) override {
    auto found = layers_.find(weight.unsafeGetTensorImpl());
    if (found == layers_.end() || !has_fp8_sizes(input, weight)) return {};
    auto present = bias && bias->defined() ? bias : std::nullopt;
    auto layer = c10::make_intrusive<FP8Layer<>>(scales, found->second);
    auto sizes = input.sizes().vec();
    sizes.back() = weight.size(0);
    return FP8Linear<>::apply(input.reshape({-1, input.size(-1)}), weight, present, layer,
                              at::GradMode::is_enabled())
        .view(sizes);
  }

  std::shared_ptr<FP8Scales> scales;

 private:
  static bool has_fp8_sizes(const at::Tensor& input, const at::Tensor& weight) {
    return input.dim() > 0 && input.size(-1) == weight.size(1) && input.is_floating_point() &&
           input.scalar_type() != at::kDouble && weight.scalar_type() != at::kDouble &&
           input.numel() > 0 && input.numel() / input.size(-1) % 16 == 0;
  }

  ska::flat_hash_map<const c10::TensorImpl*, std::int64_t> layers_;
};

}  // namespace ikebana::detail
