#pragma once
#include <algorithm>
#include <ikebana/images/transforms_geometry_functions.hpp>

namespace ikebana::images::detail {

inline std::vector<std::int64_t> source_indices(PaddingMode mode, std::int64_t size,
                                                std::int64_t start, std::int64_t count) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = start + i;
    const bool before = at < 0, outside = before || at >= size;
    if (outside && mode == PaddingMode::Constant) at = -1;
    else if (outside && mode == PaddingMode::Edge) at = before ? 0 : size - 1;
    else if (outside && mode == PaddingMode::Reflect) at = before ? -at : 2 * (size - 1) - at;
    else if (outside) at = before ? -at - 1 : 2 * size - 1 - at;
    indices[static_cast<std::size_t>(i)] = at;
  }
  return indices;
}

inline void check_padding(const char* who, const Padding& p, PaddingMode mode,
                          const ImageShape& shape) {
  const std::int64_t least = std::min({p.left, p.top, p.right, p.bottom});
  if (least < 0)
    throw BadValue(std::string(who) + ": a padding is " + std::to_string(least) +
                   "; it must be 0 or more. To remove pixels, crop.");
  const std::int64_t reflected = mode == PaddingMode::Reflect ? 1 : 0;
  if (mode == PaddingMode::Constant || mode == PaddingMode::Edge) return;
  if (std::max(p.left, p.right) > shape.width - reflected ||
      std::max(p.top, p.bottom) > shape.height - reflected)
    throw BadValue(std::string(who) + ": the padding is larger than the image of " +
                   times_text(shape.height, shape.width) +
                   ", which is to be reflected. Use PaddingMode::Edge or Constant.");
}

inline at::Tensor window(const at::Tensor& image, std::int64_t top, std::int64_t left,
                         std::int64_t height, std::int64_t width, const Fill& fill,
                         PaddingMode mode) {
  const std::int64_t h = image.size(-2), w = image.size(-1);
  if (top >= 0 && left >= 0 && top + height <= h && left + width <= w)
    return image.narrow(-2, top, height).narrow(-1, left, width);
  if (mode != PaddingMode::Constant) {
    auto rows = on_device_of(image, source_indices(mode, h, top, height));
    auto columns = on_device_of(image, source_indices(mode, w, left, width));
    return in_layout_of(image, image.index_select(-2, rows).index_select(-1, columns));
  }
  at::Tensor made = empty_like_layout(image, height, width);
  if (fill.size() > 1) made.copy_(fill_tensor(image, fill, image.scalar_type()));
  else made.fill_(fill.empty() ? 0.0 : fill[0]);
  const std::int64_t first_row = std::clamp(top, std::int64_t{0}, h);
  const std::int64_t first_column = std::clamp(left, std::int64_t{0}, w);
  const std::int64_t rows = std::clamp(top + height, std::int64_t{0}, h) - first_row;
  const std::int64_t columns = std::clamp(left + width, std::int64_t{0}, w) - first_column;
  if (rows <= 0 || columns <= 0) return made;
  made.narrow(-2, first_row - top, rows)
      .narrow(-1, first_column - left, columns)
      .copy_(image.narrow(-2, first_row, rows).narrow(-1, first_column, columns));
  return made;
}

/// Returns whether this CPU resizes Byte images faster directly, as torchvision decides.
inline bool resizes_bytes() {
  static const bool does = [] {
    const std::string capability = at::get_cpu_capability();
    return capability == "AVX2" || capability == "AVX512";
  }();
  return does;
}

inline at::Tensor interpolated(const at::Tensor& image, at::IntArrayRef size,
                               const functional::ResizeOptions& options) {
  const std::optional<double> any = {};
  switch (options.interpolation) {
    case InterpolationMode::Nearest:
      return at::upsample_nearest2d(image, size, any, any);
    case InterpolationMode::NearestExact:
      return at::_upsample_nearest_exact2d(image, size, any, any);
    case InterpolationMode::Bilinear:
      return options.antialias ? at::_upsample_bilinear2d_aa(image, size, false, any, any)
                               : at::upsample_bilinear2d(image, size, false, any, any);
    default:
      return options.antialias ? at::_upsample_bicubic2d_aa(image, size, false, any, any)
                               : at::upsample_bicubic2d(image, size, false, any, any);
  }
}

inline bool resizes_directly(const at::Tensor& image, InterpolationMode mode) {
  if (image.scalar_type() == at::kFloat || image.scalar_type() == at::kDouble) return true;
  if (image.scalar_type() != at::kByte) return false;
  if (mode == InterpolationMode::Nearest || mode == InterpolationMode::NearestExact) return true;
  return image.is_cpu() && (mode == InterpolationMode::Bicubic || resizes_bytes());
}

inline at::Tensor resized(const at::Tensor& image, std::int64_t height, std::int64_t width,
                          const functional::ResizeOptions& options) {
  if (image.size(-2) == height && image.size(-1) == width) return image;
  at::Tensor batch = image.dim() == 3 ? image.unsqueeze(0) : image;
  if (batch.size(0) == 1 && layout_of(image) == at::MemoryFormat::ChannelsLast &&
      batch.is_contiguous(at::MemoryFormat::ChannelsLast)) {
    // LibTorch takes this stride as the sign that the result is to be in channels_last.
    auto strides = batch.strides().vec();
    strides[0] = batch.numel();
    batch = batch.as_strided(batch.sizes(), strides);
  }
  const bool directly = resizes_directly(image, options.interpolation);
  at::Tensor made = interpolated(directly ? batch : batch.to(at::kFloat), {height, width}, options);
  if (!directly) {
    if (options.interpolation == InterpolationMode::Bicubic && image.scalar_type() == at::kByte)
      made.clamp_(0, 255);
    if (!image.is_floating_point()) made.round_();
    made = made.to(image.scalar_type());
  }
  return in_layout_of(image, image.dim() == 3 ? made.squeeze(0) : made);
}

inline at::Tensor resize_masks(const at::Tensor& masks, std::int64_t height, std::int64_t width) {
  return as_image(masks, [&](const at::Tensor& image) {
    return resized(image, height, width, {.interpolation = InterpolationMode::Nearest});
  });
}

}  // namespace ikebana::images::detail

namespace ikebana::images::functional {

inline std::array<std::int64_t, 2> resized_size(std::int64_t height, std::int64_t width,
                                                const Size& size,
                                                std::optional<std::int64_t> max_size) {
  detail::check_size("Resize", size);
  if (!size.is_side) {
    if (max_size)
      throw BadValue("Resize: max_size is set, and size has height and width. Leave out one.");
    return {size.height, size.width};
  }
  std::int64_t shorter = size.height;
  auto longer = static_cast<std::int64_t>(static_cast<double>(shorter * std::max(height, width)) /
                                          static_cast<double>(std::min(height, width)));
  if (max_size) {
    if (*max_size <= shorter)
      throw BadValue("Resize: max_size is " + std::to_string(*max_size) +
                     "; it must be more than size, " + std::to_string(shorter) + ".");
    if (longer > *max_size) {
      shorter = static_cast<std::int64_t>(static_cast<double>(*max_size * shorter) /
                                          static_cast<double>(longer));
      longer = *max_size;
    }
  }
  shorter = std::max<std::int64_t>(shorter, 1);
  return width <= height ? std::array{longer, shorter} : std::array{shorter, longer};
}

inline at::Tensor resize(const at::Tensor& image, const Size& size, const ResizeOptions& options) {
  const ImageShape shape = detail::shape_of("Resize", image);
  const auto [height, width] = resized_size(shape.height, shape.width, size, options.max_size);
  return detail::resized(image, height, width, options);
}

inline at::Tensor crop(const at::Tensor& image, std::int64_t top, std::int64_t left,
                       std::int64_t height, std::int64_t width) {
  detail::shape_of("crop", image);
  detail::check_size("crop", {height, width});
  return detail::window(image, top, left, height, width, {}, PaddingMode::Constant);
}

inline at::Tensor resized_crop(const at::Tensor& image, std::int64_t top, std::int64_t left,
                               std::int64_t height, std::int64_t width, const Size& size,
                               const ResizeOptions& options) {
  return resize(crop(image, top, left, height, width), size, options);
}

inline at::Tensor pad(const at::Tensor& image, const Padding& p, const Fill& fill,
                      PaddingMode padding_mode) {
  const ImageShape shape = detail::shape_of("pad", image);
  detail::check_padding("pad", p, padding_mode, shape);
  detail::check_fill("pad", fill, shape.channels);
  return detail::window(image, -p.top, -p.left, shape.height + p.top + p.bottom,
                        shape.width + p.left + p.right, fill, padding_mode);
}

inline at::Tensor horizontal_flip(const at::Tensor& image) {
  detail::shape_of("horizontal_flip", image);
  return image.flip(-1);
}

inline at::Tensor vertical_flip(const at::Tensor& image) {
  detail::shape_of("vertical_flip", image);
  return image.flip(-2);
}

inline at::Tensor erase(const at::Tensor& image, std::int64_t top, std::int64_t left,
                        std::int64_t height, std::int64_t width, const at::Tensor& value) {
  const ImageShape shape = detail::shape_of("erase", image);
  if (top < 0 || left < 0 || height < 0 || width < 0 || top + height > shape.height ||
      left + width > shape.width)
    throw BadValue("erase: a rectangle of " + detail::times_text(height, width) + " at row " +
                   std::to_string(top) + " and column " + std::to_string(left) +
                   " is not inside of an image of " +
                   detail::times_text(shape.height, shape.width) + ". Choose one that is.");
  at::Tensor made = image.clone();
  made.narrow(-2, top, height).narrow(-1, left, width).copy_(value);
  return made;
}

}  // namespace ikebana::images::functional
