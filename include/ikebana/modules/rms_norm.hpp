#pragma once
#include <cstdint>
#include <optional>
#include <ostream>
#include <utility>
#include <vector>

#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// RMSNorm of rows on a CPU, where LibTorch's is a row of operators. Its backward is that of
/// LayerNorm's kernel about a mean of 0, and what that takes away for the mean is added again.
/// Keeps the input and one number a row.
struct RMSNormOfRows : torch::autograd::Function<RMSNormOfRows> {
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  /// x (N, E), weight (E) if any.
  static at::Tensor forward(Context* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& weight, double eps) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto wide = x.to(wide_type(x));
    const auto width = static_cast<double>(x.size(1));
    const auto size = at::linalg_vector_norm(wide, 2, at::IntArrayRef{1}, true);
    const auto rstd = size.square().div_(width).add_(eps).rsqrt_();
    auto y = wide.mul(rstd);
    if (weight) y.mul_(weight->to(y.scalar_type()));
    context->save_for_backward({x, weight.value_or(at::Tensor()), rstd});
    context->saved_data["eps"] = eps;
    return y.to(x.scalar_type());
  }

  static Tensors backward(Context* context, const Tensors& gradients) {
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1];
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto type = wide_type(x);
    const auto g = gradients[0].to(type), wide = x.to(type),
               w = weight.defined() ? weight.to(type) : weight;
    auto [of_x, of_weight] = at::GradMode::is_enabled()
                                 ? again(g, wide, w, context->saved_data["eps"].toDouble())
                                 : once(g, wide, w, saved[2]);
    if (weight.defined()) of_weight = of_weight.to(weight.scalar_type());
    return {of_x.to(x.scalar_type()), of_weight, {}};
  }

 private:
  using Pair = std::pair<at::Tensor, at::Tensor>;

  static at::ScalarType wide_type(const at::Tensor& x) {
    return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }
  static Pair once(const at::Tensor& g, const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& rstd) {
    const auto w = weight.defined() ? std::optional(weight) : std::nullopt;
    auto [of_x, of_weight, none] = at::native_layer_norm_backward(
        g, x, {x.size(1)}, at::zeros_like(rstd), rstd, w, {}, {true, w.has_value(), false});
    const auto sums = w ? g.mv(*w).unsqueeze(1) : g.sum(1, true);
    of_x.addcmul_(rstd, sums, 1 / static_cast<double>(x.size(1)));
    return {of_x, of_weight};
  }
  // With create_graph: the same derivative in operators that autograd follows again.
  static Pair again(const at::Tensor& g, const at::Tensor& x, const at::Tensor& w, double eps) {
    const auto rstd = x.square().mean(1, true).add(eps).rsqrt(), y = x * rstd;
    const auto of_y = w.defined() ? g * w : g;
    return {rstd * (of_y - y * (of_y * y).mean(1, true)),
            w.defined() ? (g * y).sum(0) : at::Tensor()};
  }
};

}  // namespace ikebana::detail

namespace ikebana::modules {

/// What torch.nn.RMSNorm takes besides its shape, in its words.
struct RMSNormOptions {
  /// Added to the mean square; when not given, the distance from 1 to the next number of the type.
  std::optional<double> eps{};
  /// With a learnable weight, one number a feature, which begins at 1.
  bool elementwise_affine = true;
};

/// x / sqrt(mean(x^2) + eps) * weight over the last dimensions, which are `normalized_shape`.
/// Costs on a CPU about what LayerNorm costs, and keeps its input for backward; elsewhere it is
/// LibTorch's rms_norm. It computes in single precision, in double for double, and gives its
/// input's type, under autocast, too.
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
    if (!x.is_cpu() || !fits(x)) return at::rms_norm(x, normalized_shape, scale, options.eps);
    const auto tiny = x.scalar_type() == at::kDouble ? 0x1p-52 : 0x1p-23;
    const auto rows = x.reshape({-1, c10::multiply_integers(normalized_shape)});
    const auto flat = scale ? std::optional(scale->flatten()) : std::nullopt;
    return detail::RMSNormOfRows::apply(rows, flat, options.eps.value_or(tiny)).view(x.sizes());
  }
  void pretty_print(std::ostream& out) const override {
    out << "ikebana::modules::RMSNorm(" << at::IntArrayRef(normalized_shape) << ')';
  }

  std::vector<std::int64_t> normalized_shape;
  RMSNormOptions options;
  at::Tensor weight;

 private:
  // What does not, LibTorch refuses in its own words.
  bool fits(const at::Tensor& x) const {
    const auto last = normalized_shape.size();
    return x.is_floating_point() && x.numel() > 0 && x.sizes().size() >= last &&
           x.sizes().slice(x.sizes().size() - last) == at::IntArrayRef(normalized_shape);
  }
};
TORCH_MODULE(RMSNorm);

}  // namespace ikebana::modules
