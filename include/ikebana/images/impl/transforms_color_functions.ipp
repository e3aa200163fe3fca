#pragma once
#include <cmath>
#include <ikebana/images/transforms_color_functions.hpp>

// The operators and their order are torchvision's, so that the bits are, too.
namespace ikebana::images::detail {

inline at::Tensor scaled(const at::Tensor& image, const Factors& factors) {
  return factors.each.defined() ? image.mul(factors.each) : image.mul(factors.one);
}

inline at::Tensor clamped_to_dtype(at::Tensor values, const at::Tensor& image) {
  values.clamp_(0, max_value(image));
  return image.is_floating_point() ? values : values.to(image.scalar_type());
}

inline at::Tensor blend(const at::Tensor& image, const at::Tensor& other, const Factors& factors) {
  at::Tensor sum = scaled(image, factors);
  if (factors.each.defined()) sum.addcmul_(other, factors.one_less);
  else sum.add_(other, 1.0 - factors.one);
  return clamped_to_dtype(std::move(sum), image);
}

/// Returns the grey image (.., 1, H, W) in the dtype in which the image is computed with.
inline at::Tensor grey(const at::Tensor& image) {
  const auto channels = image.unbind(-3);
  return channels[0].mul(0.2989).add_(channels[1], 0.587).add_(channels[2], 0.114).unsqueeze(-3);
}

inline at::Tensor brightness(const at::Tensor& image, const Factors& factors) {
  return clamped_to_dtype(scaled(image, factors), image);
}

inline at::Tensor saturation(const at::Tensor& image, const Factors& factors) {
  if (image.size(-3) == 1) return image;
  at::Tensor grey_image = grey(image);
  if (!image.is_floating_point()) grey_image.floor_();
  return blend(image, grey_image, factors);
}

inline at::Tensor contrast(const at::Tensor& image, const Factors& factors) {
  const bool is_byte = !image.is_floating_point(), has_colours = image.size(-3) == 3;
  at::Tensor grey_image = has_colours ? grey(image) : image;
  if (!is_byte) return blend(image, grey_image.mean({-3, -2, -1}, /*keepdim=*/true), factors);
  if (has_colours) grey_image.floor_();
  // Double sums of integers are exact, so the mean depends on neither threads nor batches.
  at::Tensor sum = grey_image.sum({-3, -2, -1}, /*keepdim=*/true, at::kDouble);
  const auto pixels = static_cast<double>(image.size(-2) * image.size(-1));
  return blend(image, sum.div_(pixels).to(at::kFloat), factors);
}

inline at::Tensor rgb_to_hsv(const at::Tensor& image) {
  const auto rgb = image.unbind(-3);
  const auto [least, most] = at::aminmax(image, -3);
  const at::Tensor is_grey = most == least, range = most - least;
  const at::Tensor ones = at::ones_like(most);
  const at::Tensor s = range / at::where(is_grey, ones, most);
  const at::Tensor divisor = at::where(is_grey, ones, range).unsqueeze_(-3);
  const auto scaled = ((most.unsqueeze(-3) - image) / divisor).unbind(-3);
  const at::Tensor rc = scaled[0], gc = scaled[1], bc = scaled[2];
  const at::Tensor not_red = most != rgb[0], is_green = most == rgb[1];
  at::Tensor hg = rc.add(2.0).sub_(bc).mul_(is_green & not_red);
  at::Tensor hr = bc.sub_(gc).mul_(not_red.logical_not());
  at::Tensor hb = gc.add_(4.0).sub_(rc).mul_(not_red & is_green.logical_not());
  at::Tensor h = hr.add_(hg).add_(hb);
  h.mul_(1.0 / 6.0).add_(1.0).fmod_(1.0);
  return at::stack({h, s, most}, -3);
}

inline at::Tensor hsv_to_rgb(const at::Tensor& hsv) {
  const auto planes = hsv.unbind(-3);
  const at::Tensor s = planes[1], v = planes[2];
  at::Tensor h6 = planes[0].mul(6), sector = h6.floor();
  at::Tensor f = h6.sub_(sector);
  at::Tensor i = sector.to(at::kInt).remainder_(6);
  at::Tensor sxf = s * f, one_less_s = 1.0 - s;
  at::Tensor q = (1.0 - sxf).mul_(v).clamp_(0.0, 1.0);
  at::Tensor t = sxf.add_(one_less_s).mul_(v).clamp_(0.0, 1.0);
  at::Tensor p = one_less_s.mul_(v).clamp_(0.0, 1.0);
  static const std::vector<std::int64_t> table = {0, 2, 1, 1, 3, 0, 3, 0, 0,
                                                  2, 1, 1, 1, 1, 3, 0, 0, 2};
  at::Tensor select = on_device_of(hsv, table).view({3, 6}).index({at::indexing::Slice(), i});
  if (select.dim() > 3) select = select.movedim(0, -3);
  return at::stack({v, p, q, t}, -3).gather(-3, select);
}

inline at::Tensor hue_by_operators(const at::Tensor& image, const Factors& factors) {
  const bool is_byte = !image.is_floating_point();
  at::Tensor hsv =
      rgb_to_hsv(is_byte ? image.to(at::kFloat).mul_(1.0 / 255) : image.to(at::kFloat));
  at::Tensor h = hsv.select(-3, 0);
  if (factors.each.defined()) h.add_(factors.each.squeeze(-3));
  else h.add_(factors.one);
  h.remainder_(1.0);
  at::Tensor made = hsv_to_rgb(hsv);
  return in_layout_of(
      image, is_byte ? made.mul(256.0 - 1e-3).to(at::kByte) : made.to(image.scalar_type()));
}

/// Returns the convolution of each channel with the kernel of that channel.
inline at::Tensor each_channel_by(const at::Tensor& kernel, const at::Tensor& image) {
  const std::array<std::int64_t, 2> one = {1, 1}, none = {0, 0};
  return at::conv2d(image, kernel, {}, at::IntArrayRef(one), at::IntArrayRef(none),
                    at::IntArrayRef(one), image.size(-3));
}

inline void check_factor(const char* who, const at::Tensor& image, double factor) {
  shape_of(who, image), check_colours(who, image);
  check_not_negative(who, "the factor", factor);
}

}  // namespace ikebana::images::detail

namespace ikebana::images::functional {

inline at::Tensor adjust_brightness(const at::Tensor& image, double factor) {
  detail::check_factor("adjust_brightness", image, factor);
  return detail::brightness(image, {factor});
}

inline at::Tensor adjust_contrast(const at::Tensor& image, double factor) {
  detail::check_factor("adjust_contrast", image, factor);
  return detail::contrast(image, {factor});
}

inline at::Tensor adjust_saturation(const at::Tensor& image, double factor) {
  detail::check_factor("adjust_saturation", image, factor);
  return detail::saturation(image, {factor});
}

inline at::Tensor adjust_hue(const at::Tensor& image, double factor) {
  detail::shape_of("adjust_hue", image), detail::check_colours("adjust_hue", image);
  detail::check_between("adjust_hue", "the factor", factor, -0.5, 0.5);
  return detail::hue(image, {factor});
}

inline at::Tensor adjust_sharpness(const at::Tensor& image, double factor) {
  detail::check_factor("adjust_sharpness", image, factor);
  const std::int64_t height = image.size(-2), width = image.size(-1), channels = image.size(-3);
  if (height <= 2 || width <= 2) return image;
  const bool is_byte = !image.is_floating_point();
  const auto dtype = detail::computed_in(image);
  constexpr double a = 1.0 / 13.0, b = 5.0 / 13.0;
  at::Tensor kernel = detail::on_device_of(image, {a, a, a, a, b, a, a, a, a}, dtype);
  kernel = kernel.view({3, 3}).expand({channels, 1, 3, 3});
  at::Tensor output = image.to(dtype, /*non_blocking=*/false, /*copy=*/true);
  at::Tensor blurred = detail::each_channel_by(kernel, output);
  if (is_byte) blurred.round_();
  at::Tensor inside = output.narrow(-2, 1, height - 2).narrow(-1, 1, width - 2);
  inside.add_(blurred.sub_(inside), 1.0 - factor);
  return detail::clamped_to_dtype(std::move(output), image);
}

inline at::Tensor adjust_gamma(const at::Tensor& image, double gamma, double gain) {
  detail::shape_of("adjust_gamma", image);
  detail::check_not_negative("adjust_gamma", "gamma", gamma);
  detail::check_not_negative("adjust_gamma", "gain", gain);
  at::Tensor made = image.is_floating_point() ? image.pow(gamma) : to_float(image).pow_(gamma);
  if (gain != 1.0) made = made.mul(gain).clamp_(0.0, 1.0);
  return image.is_floating_point() ? made : made.mul_(256.0 - 1e-3).to(at::kByte);
}

inline at::Tensor posterize(const at::Tensor& image, std::int64_t bits) {
  detail::shape_of("posterize", image);
  detail::check_between("posterize", "bits", static_cast<double>(bits), 0, 8);
  if (image.is_floating_point()) {
    const auto levels = static_cast<double>(std::int64_t{1} << bits);
    return image.mul(levels).floor_().clamp_(0, levels - 1).mul_(1.0 / levels);
  }
  if (bits == 8) return image;
  return image.bitwise_and(((std::int64_t{1} << bits) - 1) << (8 - bits));
}

inline at::Tensor solarize(const at::Tensor& image, double threshold) {
  detail::shape_of("solarize", image);
  detail::check_between("solarize", "threshold", threshold, 0, detail::max_value(image));
  return at::where(image >= threshold, invert(image), image);
}

inline at::Tensor invert(const at::Tensor& image) {
  detail::shape_of("invert", image);
  return image.is_floating_point() ? 1.0 - image : image.bitwise_not();
}

inline at::Tensor rgb_to_grayscale(const at::Tensor& image, std::int64_t num_output_channels) {
  const char* who = "rgb_to_grayscale";
  detail::shape_of(who, image), detail::check_colours(who, image);
  if (num_output_channels != 1 && num_output_channels != 3)
    throw BadValue("rgb_to_grayscale: num_output_channels is " +
                   std::to_string(num_output_channels) + "; it must be 1 or 3.");
  auto sizes = image.sizes().vec();
  sizes[sizes.size() - 3] = num_output_channels;
  if (image.size(-3) == 1) return num_output_channels == 1 ? image : image.expand(sizes);
  return detail::in_layout_of(image, detail::grey(image).to(image.scalar_type()).expand(sizes));
}

inline at::Tensor to_float(const at::Tensor& image) {
  detail::shape_of("ToFloat", image);
  if (image.is_floating_point()) return image.to(at::kFloat);
  return image.to(at::kFloat).mul_(1.0 / 255);
}

inline at::Tensor normalize(const at::Tensor& image, const std::vector<double>& mean,
                            const std::vector<double>& std) {
  const std::int64_t channels = detail::shape_of("Normalize", image).channels;
  if (!image.is_floating_point())
    throw BadBatch(
        "Normalize: the image is Byte, with values from 0 to 255. Convert it first: ToFloat{}.");
  for (const auto* values : {&mean, &std})
    if (values->size() != 1 && static_cast<std::int64_t>(values->size()) != channels)
      throw BadValue("Normalize: " + std::string(values == &mean ? "mean" : "std") + " has " +
                     std::to_string(values->size()) + " numbers, and the image has " +
                     std::to_string(channels) + " channels. Give one per channel.");
  for (double value : mean) detail::check_finite("Normalize", "a number of mean", value);
  for (double value : std) detail::check_positive("Normalize", "a number of std", value);
  const auto dtype = image.scalar_type();
  return image.sub(detail::on_device_of(image, mean, dtype).view({-1, 1, 1}))
      .div_(detail::on_device_of(image, std, dtype).view({-1, 1, 1}));
}

}  // namespace ikebana::images::functional
