#pragma once
// Defines images that are transformed together with their boxes and masks.
#include <ikebana/images/transforms_geometry_functions.hpp>

namespace ikebana::images {

/// An image with what is marked in it. A transform that moves pixels moves boxes and masks, too;
/// one of colours leaves them. A box that a crop removes stays as one without area, so that labels
/// keep their rows; `box_areas` finds it.
struct Annotated {
  at::Tensor image;  ///< (C, H, W), Byte or floating-point
  /// (n, 4), floating-point: left, top, right and bottom edge in pixels, inside of the image; or
  /// undefined.
  at::Tensor boxes = {};
  /// (n, H, W) or (H, W), of any dtype: masks or classes of pixels; or undefined.
  at::Tensor masks = {};
};

/// Returns the areas (n) of boxes (n, 4) in square pixels.
at::Tensor box_areas(const at::Tensor& boxes);
/// Returns boxes (n, 4) as corners that were stored as (left, top, width, height), COCO's format.
at::Tensor boxes_from_xywh(const at::Tensor& boxes);

namespace detail {

/// Throws BadBatch if boxes or masks do not fit the image. Values of boxes on a device are not
/// read.
void check_annotations(const char* who, const Annotated& sample);

/// The functions on boxes (n, 4) in an image of this shape; the results are clamped to its size
/// afterwards.
at::Tensor clamp_boxes(const at::Tensor& boxes, std::int64_t height, std::int64_t width);
at::Tensor crop_boxes(const at::Tensor& boxes, std::int64_t top, std::int64_t left,
                      std::int64_t height, std::int64_t width);
at::Tensor resize_boxes(const at::Tensor& boxes, const ImageShape& from, std::int64_t height,
                        std::int64_t width);
at::Tensor flip_boxes_horizontally(const at::Tensor& boxes, std::int64_t width);
at::Tensor flip_boxes_vertically(const at::Tensor& boxes, std::int64_t height);
/// Returns the smallest upright boxes around rotated ones.
at::Tensor rotate_boxes(const at::Tensor& boxes, const ImageShape& shape, double angle,
                        const functional::RotateOptions& options);

}  // namespace detail
}  // namespace ikebana::images

#include <ikebana/images/impl/boxes.ipp>
