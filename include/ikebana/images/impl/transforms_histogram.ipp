#pragma once
// The functions of colours that read a whole image first, or that read neighbours.
#include <cmath>
#include <ikebana/images/transforms_color_functions.hpp>

namespace ikebana::images::functional {

inline at::Tensor autocontrast(const at::Tensor& image) {
  detail::shape_of("autocontrast", image), detail::check_colours("autocontrast", image);
  const at::Tensor values = image.to(detail::computed_in(image));
  at::Tensor least = values.amin({-2, -1}, /*keepdim=*/true);
  at::Tensor most = values.amax({-2, -1}, /*keepdim=*/true);
  const at::Tensor is_flat = most == least;
  at::Tensor scale = most.sub_(least).mul_(1.0 / detail::max_value(image));
  least.masked_fill_(is_flat, 0.0);
  scale.masked_fill_(is_flat, 1.0);
  return values.sub(least).div_(scale).clamp_(0, detail::max_value(image)).to(image.scalar_type());
}

inline at::Tensor equalize(const at::Tensor& given) {
  detail::shape_of("equalize", given);
  const bool is_byte = !given.is_floating_point();
  const at::Tensor image = is_byte ? given
                                   : given
                                         .to(at::promote_types(given.scalar_type(), at::kFloat))

                                         .mul(256.0 - 1e-3)
                                         .to(at::kByte);
  const at::Tensor flat = image.flatten(-2).to(at::kLong);
  auto sizes = image.sizes().vec();
  sizes.pop_back(), sizes.back() = 256;
  const auto ints = image.options().dtype(at::kInt);
  const at::Tensor histogram =
      at::zeros(sizes, ints).scatter_add_(-1, flat, at::ones({1}, ints).expand_as(flat));
  at::Tensor sums = histogram.cumsum(-1);
  const at::Tensor last = sums.argmax(-1, /*keepdim=*/true);
  // Pixels that are not of the largest value, divided by the number of steps: Pillow's scheme.
  at::Tensor step = (flat.size(-1) - histogram.gather(-1, last)).div_(255, "floor");
  const at::Tensor is_valid = step.ne(0).unsqueeze_(-1);
  sums = sums.narrow(-1, 0, 255);
  sums.add_(step.div(2, "floor")).div_(step.clamp_min_(1), "floor").clamp_(0, 255);
  const at::Tensor table = at::constant_pad_nd(sums.to(at::kByte), {1, 0});
  const at::Tensor equalized = table.gather(-1, flat).view(image.sizes());
  const at::Tensor made = at::where(is_valid, equalized, image);
  return detail::in_layout_of(given, is_byte ? made : made.to(given.scalar_type()).mul_(1.0 / 255));
}

inline at::Tensor gaussian_blur(const at::Tensor& image, std::int64_t kernel_size, double sigma) {
  const auto [channels, height, width] = detail::shape_of("GaussianBlur", image);
  const std::int64_t half = kernel_size / 2;
  if (kernel_size < 1 || kernel_size % 2 == 0)
    throw BadValue("GaussianBlur: kernel_size is " + std::to_string(kernel_size) +
                   "; it must be odd, and 1 or more.");
  if (half >= height || half >= width)
    throw BadBatch("GaussianBlur: kernel_size is " + std::to_string(kernel_size) +
                   ", too large for an image of " + detail::times_text(height, width) +
                   ", which is reflected at its edges. Reduce it, or resize the image first.");
  detail::check_positive("GaussianBlur", "sigma", sigma);
  const auto dtype = detail::computed_in(image);
  const double limit = static_cast<double>(kernel_size - 1) / (2.0 * std::sqrt(2.0));
  const at::Tensor x = at::linspace(-limit, limit, kernel_size, image.options().dtype(dtype));
  const at::Tensor weights = at::softmax(x.div(sigma).pow(2).neg(), 0);
  const at::Tensor kernel =
      (weights.unsqueeze(-1) * weights).expand({channels, 1, kernel_size, kernel_size});
  at::Tensor made = image.dim() == 3 ? image.unsqueeze(0).to(dtype) : image.to(dtype);
  made = detail::each_channel_by(kernel, at::reflection_pad2d(made, {half, half, half, half}));
  if (image.dim() == 3) made = made.squeeze(0);
  return detail::in_layout_of(image,
                              image.is_floating_point() ? made : made.round_().to(at::kByte));
}

}  // namespace ikebana::images::functional
