#pragma once
#include <ikebana/detail/exporting.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/modules/rms_norm.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor RMSNormOfRows::forward(Context* context, const at::Tensor& x,
                                                 const std::optional<at::Tensor>& weight,
                                                 double eps) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto wide = x.to(wide_dtype(x));
  const auto width = static_cast<double>(x.size(1));
  const auto norm = at::linalg_vector_norm(wide, 2, at::IntArrayRef{1}, true);
  const auto rstd = norm.square().div_(width).add_(eps).rsqrt_();
  auto y = wide.mul(rstd);
  if (weight) y.mul_(weight->to(y.scalar_type()));
  context->save_for_backward({x, weight.value_or(at::Tensor()), rstd});
  context->saved_data["eps"] = eps;
  return y.to(x.scalar_type());
}

IKEBANA_INLINE RMSNormOfRows::Tensors RMSNormOfRows::backward(Context* context,
                                                              const Tensors& gradients) {
  const auto saved = context->get_saved_variables();
  const auto &x = saved[0], &weight = saved[1];
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto dtype = wide_dtype(x);
  const auto g = gradients[0].to(dtype), wide = x.to(dtype),
             w = weight.defined() ? weight.to(dtype) : weight;
  auto [grad_x, grad_weight] =
      at::GradMode::is_enabled()
          ? differentiable_backward(g, wide, w, context->saved_data["eps"].toDouble())
          : first_backward(g, wide, w, saved[2]);
  if (weight.defined()) grad_weight = grad_weight.to(weight.scalar_type());
  return {grad_x.to(x.scalar_type()), grad_weight, {}};
}

IKEBANA_INLINE at::ScalarType RMSNormOfRows::wide_dtype(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

IKEBANA_INLINE RMSNormOfRows::Pair RMSNormOfRows::first_backward(const at::Tensor& g,
                                                                 const at::Tensor& x,
                                                                 const at::Tensor& weight,
                                                                 const at::Tensor& rstd) {
  const auto w = weight.defined() ? std::optional(weight) : std::nullopt;
  auto [grad_x, grad_weight, none] = at::native_layer_norm_backward(
      g, x, {x.size(1)}, at::zeros_like(rstd), rstd, w, {}, {true, w.has_value(), false});
  const auto sums = w ? g.mv(*w).unsqueeze(1) : g.sum(1, true);
  grad_x.addcmul_(rstd, sums, 1 / static_cast<double>(x.size(1)));
  return {grad_x, grad_weight};
}

IKEBANA_INLINE RMSNormOfRows::Pair RMSNormOfRows::differentiable_backward(const at::Tensor& g,
                                                                          const at::Tensor& x,
                                                                          const at::Tensor& w,
                                                                          double eps) {
  const auto rstd = x.square().mean(1, true).add(eps).rsqrt(), y = x * rstd;
  const auto grad_y = w.defined() ? g * w : g;
  return {rstd * (grad_y - y * (grad_y * y).mean(1, true)),
          w.defined() ? (g * y).sum(0) : at::Tensor()};
}

}  // namespace ikebana::detail

namespace ikebana::modules {

IKEBANA_INLINE RMSNormImpl::RMSNormImpl(std::vector<std::int64_t> shape, RMSNormOptions o)
    : normalized_shape(std::move(shape)), options(o) {
  const bool affine = options.elementwise_affine;
  weight = register_parameter("weight", affine ? at::ones(normalized_shape) : at::Tensor(),
                              /*requires_grad=*/affine);
}

IKEBANA_INLINE at::Tensor RMSNormImpl::forward(const at::Tensor& x) {
  const auto scale = weight.defined() ? std::optional(weight) : std::nullopt;
  if (!x.is_cpu() || !fits(x) || detail::exporting())
    return at::rms_norm(x, normalized_shape, scale, options.eps);
  const auto default_eps = x.scalar_type() == at::kDouble ? 0x1p-52 : 0x1p-23;
  const auto rows = x.reshape({-1, c10::multiply_integers(normalized_shape)});
  const auto flat = scale ? std::optional(scale->flatten()) : std::nullopt;
  return detail::RMSNormOfRows::apply(rows, flat, options.eps.value_or(default_eps))
      .view(x.sizes());
}

IKEBANA_INLINE void RMSNormImpl::pretty_print(std::ostream& out) const {
  out << "ikebana::modules::RMSNorm(" << at::IntArrayRef(normalized_shape) << ')';
}

IKEBANA_INLINE bool RMSNormImpl::fits(const at::Tensor& x) const {
  const auto last = normalized_shape.size();
  return x.is_floating_point() && x.numel() > 0 && x.sizes().size() >= last &&
         x.sizes().slice(x.sizes().size() - last) == at::IntArrayRef(normalized_shape);
}

}  // namespace ikebana::modules
