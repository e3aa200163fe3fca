#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/precision/fp8_linear.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor fp8_product(const Quantized& a, const Quantized& b, at::ScalarType type,
                                      const std::optional<at::Tensor>& bias) {
  return at::_scaled_mm(a.values.contiguous(), column_major(b.values), a.inverse, b.inverse, bias,
                        {}, type);
}

IKEBANA_INLINE Quantized FP8Layer::quantized(FP8Role role, const at::Tensor& x, bool record) const {
  return scales->quantized(layer, role, x.to(at::kFloat), record);
}

IKEBANA_INLINE at::Tensor FP8Linear::forward(Context* context, const at::Tensor& input,
                                             const at::Tensor& weight,
                                             const std::optional<at::Tensor>& bias,
                                             const Layer& layer, bool record) {
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

IKEBANA_INLINE torch::autograd::variable_list FP8Linear::backward(
    Context* context, torch::autograd::variable_list gradients) {
  if (at::GradMode::is_enabled())
    throw BadModel(
        "Precision<FP8>: gradients of gradients through a linear layer in FP8 are not defined. "
        "Use Precision<BF16>.");
  auto saved = context->get_saved_variables();
  const at::Tensor& weight = saved[2];
  auto capsule = context->saved_data["layer"].toCapsule();
  Quantized g = static_cast<FP8Layer&>(*capsule).quantized(FP8Role::Gradient, gradients[0], true);
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

IKEBANA_INLINE at::Tensor FP8Linear::input_gradient(Context* context, const Quantized& g,
                                                    const at::Tensor& weight,
                                                    const at::Tensor& scale) {
  Quantized w = quantize(weight.to(at::kFloat), scale, FP8Role::Weight);
  auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
  return fp8_product(g, {w.values, w.inverse, {}}, at::kBFloat16).to(type);
}

IKEBANA_INLINE FP8Layers::FP8Layers(const FP8Scales::Scaling& scaling, const UnitTable& table,
                                    c10::Device device) {
  for (const Unit& unit : table.units())
    for (const auto& p : unit.parameters)
      if (p.dim() == 2 && p.size(0) % 16 == 0 && p.size(1) % 16 == 0)
        layers_.emplace(p.unsafeGetTensorImpl(), static_cast<std::int64_t>(layers_.size()));
  auto count = static_cast<std::int64_t>(layers_.size());
  scales = make_shared_apart<FP8Scales>(scaling, count, device);
}

IKEBANA_INLINE std::optional<at::Tensor> FP8Layers::linear(const at::Tensor& input,
                                                           const at::Tensor& weight,
                                                           const std::optional<at::Tensor>& bias) {
  auto found = layers_.find(weight.unsafeGetTensorImpl());
  if (found == layers_.end() || !has_fp8_sizes(input, weight)) return {};
  auto present = bias && bias->defined() ? bias : std::nullopt;
  auto layer = c10::make_intrusive<FP8Layer>(scales, found->second);
  auto sizes = input.sizes().vec();
  sizes.back() = weight.size(0);
  return FP8Linear::apply(input.reshape({-1, input.size(-1)}), weight, present, layer,
                          at::GradMode::is_enabled())
      .view(sizes);
}

IKEBANA_INLINE bool FP8Layers::has_fp8_sizes(const at::Tensor& input, const at::Tensor& weight) {
  return input.dim() > 0 && input.size(-1) == weight.size(1) && input.is_floating_point() &&
         input.scalar_type() != at::kDouble && weight.scalar_type() != at::kDouble &&
         input.numel() > 0 && input.numel() / input.size(-1) % 16 == 0;
}

}  // namespace ikebana::detail
