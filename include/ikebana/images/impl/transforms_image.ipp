#pragma once
#include <cmath>
#include <ikebana/images/transforms_image.hpp>
#include <string>

namespace ikebana::images::detail {

inline std::string times_text(std::int64_t height, std::int64_t width) {
  return std::to_string(height) + " x " + std::to_string(width);
}

inline std::string number_text(double number) { return c10::str(number); }

inline ImageShape shape_of(const char* who, const at::Tensor& image) {
  const std::string where(who);
  if (!image.defined())
    throw BadBatch(where + ": the image is an undefined tensor. Give it an image (C, H, W).");
  const std::string is = c10::toString(image.scalar_type()) + c10::str(image.sizes());
  if (image.dim() != 3 && image.dim() != 4)
    throw BadBatch(where + ": the image is " + is +
                   "; it must be (C, H, W), or a batch (N, C, H, W). Add a dimension to an image "
                   "without channels: image.unsqueeze(0).");
  const std::int64_t channels = image.size(-3), height = image.size(-2), width = image.size(-1);
  if (channels > 4 && (width == 1 || width == 3 || width == 4))
    throw BadBatch(where + ": the image is " + is +
                   ", which has its channels last; here they come first. Permute it, which copies "
                   "nothing: image.movedim(-1, -3).");
  if (image.scalar_type() != at::kByte && !image.is_floating_point())
    throw BadBatch(where + ": the image is " + is +
                   "; its dtype must be Byte, with values from 0 to 255, or floating-point.");
  if (channels < 1 || height < 1 || width < 1)
    throw BadBatch(where + ": the image is " + is +
                   ", which has no pixels. Give it an image with at least one.");
  return {channels, height, width};
}

inline void check_colours(const char* who, const at::Tensor& image) {
  const std::int64_t channels = image.size(-3);
  if (channels != 1 && channels != 3)
    throw BadBatch(std::string(who) + ": the image has " + std::to_string(channels) +
                   " channels; colours are computed with 3, or 1 for grey. Leave out an alpha "
                   "channel: image.narrow(-3, 0, 3).");
}

inline void check_unit_range(const char* who, const at::Tensor& image) {
  if (!image.is_floating_point() || !image.is_cpu() || image.numel() == 0) return;
  const auto [least, most] = at::aminmax(image);
  const double low = least.item<double>(), high = most.item<double>();
  constexpr double rounding = 1e-3;
  if (low >= -rounding && high <= 1 + rounding) return;
  throw BadBatch(std::string(who) + ": the image is " + c10::toString(image.scalar_type()) +
                 " with values from " + number_text(low) + " to " + number_text(high) +
                 "; floating-point images must lie in [0, 1]. Put ToFloat and Normalize after this "
                 "transform, and clamp what exceeds 1.");
}

[[noreturn]] inline void throw_value(const char* who, const char* name, double value,
                                     const std::string& must) {
  throw BadValue(std::string(who) + ": " + name + " is " + number_text(value) + "; it must be " +
                 must + ".");
}

inline void check_between(const char* who, const char* name, double value, double low,
                          double high) {
  if (!(value >= low && value <= high))
    throw_value(who, name, value, "from " + number_text(low) + " to " + number_text(high));
}

inline void check_finite(const char* who, const char* name, double value) {
  if (!std::isfinite(value)) throw_value(who, name, value, "finite");
}

inline void check_not_negative(const char* who, const char* name, double value) {
  if (!(value >= 0) || std::isinf(value)) throw_value(who, name, value, "0 or more, and finite");
}

inline void check_positive(const char* who, const char* name, double value) {
  if (!(value > 0) || std::isinf(value)) throw_value(who, name, value, "more than 0, and finite");
}

inline void check_size(const char* who, const Size& size) {
  if (size.height >= 1 && size.square_width() >= 1) return;
  throw BadValue(std::string(who) + ": size is " + times_text(size.height, size.square_width()) +
                 "; both sides must be 1 or more.");
}

inline void check_fill(const char* who, const Fill& fill, std::int64_t channels) {
  const auto count = static_cast<std::int64_t>(fill.size());
  if (count > 1 && count != channels)
    throw BadValue(std::string(who) + ": there are " + std::to_string(count) +
                   " values to fill pixels with, and the image has " + std::to_string(channels) +
                   " channels. Give one value, or one per channel.");
  for (double value : fill)
    if (!std::isfinite(value))
      throw BadValue(std::string(who) + ": a value to fill pixels with is " + number_text(value) +
                     "; it must be finite.");
}

inline at::MemoryFormat layout_of(const at::Tensor& image) {
  const bool innermost = image.stride(-3) == 1 && image.size(-3) > 1;
  const bool rows = image.stride(-1) == 1 && image.size(-1) > 1;
  return innermost && !rows ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

inline at::Tensor in_layout_of(const at::Tensor& image, at::Tensor made) {
  constexpr auto last = at::MemoryFormat::ChannelsLast;
  if (layout_of(image) != last || layout_of(made) == last) return made;
  if (made.dim() == 4) return made.contiguous(last);
  return made.unsqueeze(0).contiguous(last).squeeze(0);
}

inline at::Tensor empty_like_layout(const at::Tensor& image, std::int64_t height,
                                    std::int64_t width) {
  const std::int64_t channels = image.size(-3);
  const bool is_batch = image.dim() == 4;
  at::Tensor made = at::empty({is_batch ? image.size(0) : 1, channels, height, width},
                              image.options(), layout_of(image));
  return is_batch ? made : made.squeeze(0);
}

inline at::Tensor on_device_of(const at::Tensor& image, const std::vector<double>& numbers,
                               at::ScalarType dtype) {
  at::Tensor on_host = at::tensor(numbers, at::TensorOptions().dtype(at::kDouble)).to(dtype);
  return image.is_cpu() ? on_host : on_host.to(image.device(), /*non_blocking=*/true);
}

inline at::Tensor on_device_of(const at::Tensor& image, const std::vector<std::int64_t>& numbers) {
  at::Tensor on_host = at::tensor(numbers, at::TensorOptions().dtype(at::kLong));
  return image.is_cpu() ? on_host : on_host.to(image.device(), /*non_blocking=*/true);
}

inline at::Tensor fill_tensor(const at::Tensor& image, const Fill& fill, at::ScalarType dtype) {
  return on_device_of(image, fill.empty() ? Fill{0} : fill, dtype).view({-1, 1, 1});
}

}  // namespace ikebana::images::detail
