#pragma once
#include <cmath>
#include <ikebana/images/transforms_geometry.hpp>

namespace ikebana::images {

inline at::Tensor Resize::apply(const at::Tensor& image) const {
  return functional::resize(image, size, {interpolation, max_size, antialias});
}
inline at::Tensor Resize::apply_boxes(const at::Tensor& boxes, const ImageShape& shape) const {
  const auto [h, w] = functional::resized_size(shape.height, shape.width, size, max_size);
  return detail::resize_boxes(boxes, shape, h, w);
}
inline at::Tensor Resize::apply_masks(const at::Tensor& masks, const ImageShape& shape) const {
  const auto [h, w] = functional::resized_size(shape.height, shape.width, size, max_size);
  return detail::resize_masks(masks, h, w);
}

namespace detail {
/// Returns where CenterCrop cuts.
inline Rectangle middle(const ImageShape& shape, const Size& size) {
  // torchvision pads a smaller side by half of what is missing, and rounds a half to even.
  const auto start = [](std::int64_t whole, std::int64_t part) {
    if (part > whole) return -((part - whole) / 2);
    return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(whole - part) / 2.0));
  };
  return {start(shape.height, size.height), start(shape.width, size.square_width()), size.height,
          size.square_width()};
}
/// Cuts a rectangle of masks, which are filled with 0.
inline at::Tensor cut_masks(const at::Tensor& masks, const Rectangle& r, PaddingMode mode) {
  return as_image(masks, [&](const at::Tensor& image) {
    return window(image, r.top, r.left, r.height, r.width, {}, mode);
  });
}
inline at::Tensor cut_boxes(const at::Tensor& boxes, const Rectangle& r) {
  return crop_boxes(boxes, r.top, r.left, r.height, r.width);
}
}  // namespace detail

namespace functional {
inline at::Tensor center_crop(const at::Tensor& image, const Size& size) {
  const ImageShape shape = detail::shape_of("CenterCrop", image);
  detail::check_size("CenterCrop", size);
  const Rectangle r = detail::middle(shape, size);
  return detail::window(image, r.top, r.left, r.height, r.width, {}, PaddingMode::Constant);
}
}  // namespace functional

inline at::Tensor CenterCrop::apply(const at::Tensor& image) const {
  return functional::center_crop(image, size);
}
inline at::Tensor CenterCrop::apply_boxes(const at::Tensor& boxes, const ImageShape& shape) const {
  return detail::cut_boxes(boxes, detail::middle(shape, size));
}
inline at::Tensor CenterCrop::apply_masks(const at::Tensor& masks, const ImageShape& shape) const {
  return detail::cut_masks(masks, detail::middle(shape, size), PaddingMode::Constant);
}

inline RandomCrop::Parameters RandomCrop::draw(const ImageShape& shape, SampleRng& rng) const {
  detail::check_size(name, size);
  detail::check_fill(name, fill, shape.channels);
  const std::int64_t height = size.height, width = size.square_width();
  Padding p = padding;
  const std::int64_t lacks_rows = height - (shape.height + p.top + p.bottom);
  const std::int64_t lacks_columns = width - (shape.width + p.left + p.right);
  if (pad_if_needed && lacks_rows > 0) p.top += lacks_rows, p.bottom += lacks_rows;
  if (pad_if_needed && lacks_columns > 0) p.left += lacks_columns, p.right += lacks_columns;
  detail::check_padding(name, p, padding_mode, shape);
  const std::int64_t rows = shape.height + p.top + p.bottom;
  const std::int64_t columns = shape.width + p.left + p.right;
  if (rows < height || columns < width)
    throw BadValue("RandomCrop: size is " + detail::times_text(height, width) +
                   ", larger than the image with its padding, " +
                   detail::times_text(rows, columns) +
                   ". Resize the image first, or set pad_if_needed.");
  const std::int64_t top = rng.randint(rows - height + 1);
  const std::int64_t left = rng.randint(columns - width + 1);
  return {top - p.top, left - p.left, height, width};
}
inline at::Tensor RandomCrop::apply(const at::Tensor& image, const Parameters& r) const {
  detail::shape_of(name, image);
  return detail::window(image, r.top, r.left, r.height, r.width, fill, padding_mode);
}
inline at::Tensor RandomCrop::apply_boxes(const at::Tensor& boxes, const ImageShape&,
                                          const Parameters& r) const {
  if (padding_mode != PaddingMode::Constant)
    throw BadValue(
        "RandomCrop: padding_mode repeats pixels, and boxes are not repeated. Use "
        "PaddingMode::Constant with boxes.");
  return detail::cut_boxes(boxes, r);
}
inline at::Tensor RandomCrop::apply_masks(const at::Tensor& masks, const ImageShape&,
                                          const Parameters& r) const {
  return detail::cut_masks(masks, r, padding_mode);
}

inline RandomResizedCrop::Parameters RandomResizedCrop::draw(const ImageShape& shape,
                                                             SampleRng& rng) const {
  detail::check_size(name, size);
  detail::check_range(name, "scale", scale[0], scale[1], 0, 1);
  detail::check_positive_range(name, "ratio", ratio[0], ratio[1]);
  const auto whole_h = static_cast<double>(shape.height),
             whole_w = static_cast<double>(shape.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = whole_h * whole_w * detail::draw_between(rng, scale[0], scale[1]);
    const double aspect =
        std::exp(detail::draw_between(rng, std::log(ratio[0]), std::log(ratio[1])));
    const auto w = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area * aspect)));
    const auto h = static_cast<std::int64_t>(std::nearbyint(std::sqrt(area / aspect)));
    if (w <= 0 || h <= 0 || w > shape.width || h > shape.height) continue;
    const std::int64_t top = rng.randint(shape.height - h + 1);
    return {top, rng.randint(shape.width - w + 1), h, w};
  }
  const double aspect = whole_w / whole_h;  // no part fits: the largest in the middle
  std::int64_t h = shape.height, w = shape.width;
  if (aspect < ratio[0]) h = static_cast<std::int64_t>(std::nearbyint(whole_w / ratio[0]));
  else if (aspect > ratio[1]) w = static_cast<std::int64_t>(std::nearbyint(whole_h * ratio[1]));
  h = std::max<std::int64_t>(h, 1), w = std::max<std::int64_t>(w, 1);
  return {(shape.height - h) / 2, (shape.width - w) / 2, h, w};
}
inline at::Tensor RandomResizedCrop::apply(const at::Tensor& image, const Parameters& r) const {
  detail::shape_of(name, image);
  return detail::resized(
      detail::window(image, r.top, r.left, r.height, r.width, {}, PaddingMode::Constant),
      size.height, size.square_width(), {.interpolation = interpolation, .antialias = antialias});
}
inline at::Tensor RandomResizedCrop::apply_boxes(const at::Tensor& boxes, const ImageShape& shape,
                                                 const Parameters& r) const {
  return detail::resize_boxes(detail::cut_boxes(boxes, r), {shape.channels, r.height, r.width},
                              size.height, size.square_width());
}
inline at::Tensor RandomResizedCrop::apply_masks(const at::Tensor& masks, const ImageShape&,
                                                 const Parameters& r) const {
  return detail::resize_masks(detail::cut_masks(masks, r, PaddingMode::Constant), size.height,
                              size.square_width());
}

inline at::Tensor RandomHorizontalFlip::apply(const at::Tensor& image,
                                              const Parameters& drawn) const {
  return drawn.happens ? image.flip(-1) : image;
}
inline at::Tensor RandomHorizontalFlip::apply_boxes(const at::Tensor& boxes,
                                                    const ImageShape& shape,
                                                    const Parameters& drawn) const {
  return drawn.happens ? detail::flip_boxes_horizontally(boxes, shape.width) : boxes;
}
inline at::Tensor RandomHorizontalFlip::apply_masks(const at::Tensor& masks, const ImageShape&,
                                                    const Parameters& drawn) const {
  return drawn.happens ? masks.flip(-1) : masks;
}
inline at::Tensor RandomVerticalFlip::apply(const at::Tensor& image,
                                            const Parameters& drawn) const {
  return drawn.happens ? image.flip(-2) : image;
}
inline at::Tensor RandomVerticalFlip::apply_boxes(const at::Tensor& boxes, const ImageShape& shape,
                                                  const Parameters& drawn) const {
  return drawn.happens ? detail::flip_boxes_vertically(boxes, shape.height) : boxes;
}
inline at::Tensor RandomVerticalFlip::apply_masks(const at::Tensor& masks, const ImageShape&,
                                                  const Parameters& drawn) const {
  return drawn.happens ? masks.flip(-2) : masks;
}

inline RandomRotation::Parameters RandomRotation::draw(const ImageShape& shape,
                                                       SampleRng& rng) const {
  detail::check_grid(name, interpolation, fill, shape.channels);
  if (degrees.is_number) {
    detail::check_not_negative(name, "degrees", degrees.low);
    return {detail::draw_between(rng, -degrees.low, degrees.low)};
  }
  detail::check_finite(name, "degrees", degrees.low);
  detail::check_finite(name, "degrees", degrees.high);
  detail::check_order(name, "degrees", degrees.low, degrees.high);
  return {detail::draw_between(rng, degrees.low, degrees.high)};
}
inline at::Tensor RandomRotation::apply(const at::Tensor& image, const Parameters& drawn) const {
  return functional::rotate(image, drawn.angle, options());
}
inline at::Tensor RandomRotation::apply_boxes(const at::Tensor& boxes, const ImageShape& shape,
                                              const Parameters& drawn) const {
  return detail::rotate_boxes(boxes, shape, drawn.angle, options());
}
inline at::Tensor RandomRotation::apply_masks(const at::Tensor& masks, const ImageShape&,
                                              const Parameters& drawn) const {
  return detail::rotate_masks(masks, drawn.angle, options());
}

}  // namespace ikebana::images
