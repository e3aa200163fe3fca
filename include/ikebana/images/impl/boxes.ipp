#pragma once
#include <ikebana/images/boxes.hpp>

namespace ikebana::images {

inline at::Tensor box_areas(const at::Tensor& boxes) {
  return (boxes.select(-1, 2) - boxes.select(-1, 0)) * (boxes.select(-1, 3) - boxes.select(-1, 1));
}

inline at::Tensor boxes_from_xywh(const at::Tensor& boxes) {
  const at::Tensor corner = boxes.narrow(-1, 0, 2);
  return at::cat({corner, corner + boxes.narrow(-1, 2, 2)}, -1);
}

namespace detail {

inline void check_box(const std::string& where, std::int64_t row, const double* box,
                      const ImageShape& shape) {
  const auto width = static_cast<double>(shape.width), height = static_cast<double>(shape.height);
  const std::string is = where + ": box " + std::to_string(row) + " is (" + number_text(box[0]) +
                         ", " + number_text(box[1]) + ", " + number_text(box[2]) + ", " +
                         number_text(box[3]) + ")";
  if (box[2] < box[0] || box[3] < box[1])
    throw BadBatch(is +
                   ", whose right or bottom edge comes before its left or top edge. Boxes are "
                   "(left, top, right, bottom); convert (left, top, width, height) by "
                   "boxes_from_xywh.");
  constexpr double rounding = 0.01;
  if (box[0] >= -rounding && box[1] >= -rounding && box[2] <= width + rounding &&
      box[3] <= height + rounding)
    return;
  throw BadBatch(is + ", which is not inside of the image of " +
                 times_text(shape.height, shape.width) +
                 ". Boxes are in pixels; multiply relative ones by width and height.");
}

inline void check_annotations(const char* who, const Annotated& sample) {
  const ImageShape shape = shape_of(who, sample.image);
  const std::string where(who);
  if (sample.image.dim() != 3)
    throw BadBatch(where + ": an annotated image is " + c10::str(sample.image.sizes()) +
                   "; it must be one image, (C, H, W).");
  const at::Tensor& masks = sample.masks;
  if (masks.defined() && ((masks.dim() != 2 && masks.dim() != 3) ||
                          masks.size(-2) != shape.height || masks.size(-1) != shape.width))
    throw BadBatch(where + ": the masks are " + c10::str(masks.sizes()) + ", and the image is " +
                   c10::str(sample.image.sizes()) +
                   ". Masks must be (H, W) or (n, H, W) of the image's size.");
  const at::Tensor& boxes = sample.boxes;
  if (!boxes.defined()) return;
  if (boxes.dim() != 2 || boxes.size(1) != 4 || !boxes.is_floating_point())
    throw BadBatch(where + ": the boxes are " + c10::toString(boxes.scalar_type()) +
                   c10::str(boxes.sizes()) + "; they must be (n, 4) and floating-point.");
  if (!boxes.is_cpu()) return;
  const at::Tensor values = boxes.to(at::kDouble).contiguous();
  const auto* box = static_cast<const double*>(values.const_data_ptr());
  for (std::int64_t i = 0; i < boxes.size(0); ++i) check_box(where, i, box + 4 * i, shape);
}

inline at::Tensor clamp_boxes(const at::Tensor& boxes, std::int64_t height, std::int64_t width) {
  const at::Tensor made = boxes.clone();
  made.slice(-1, 0, std::nullopt, 2).clamp_(0, width);
  made.slice(-1, 1, std::nullopt, 2).clamp_(0, height);
  return made;
}

inline at::Tensor crop_boxes(const at::Tensor& boxes, std::int64_t top, std::int64_t left,
                             std::int64_t height, std::int64_t width) {
  const auto x = static_cast<double>(left), y = static_cast<double>(top);
  return clamp_boxes(boxes - on_device_of(boxes, {x, y, x, y}, boxes.scalar_type()), height, width);
}

inline at::Tensor resize_boxes(const at::Tensor& boxes, const ImageShape& from, std::int64_t height,
                               std::int64_t width) {
  const double x = static_cast<double>(width) / static_cast<double>(from.width);
  const double y = static_cast<double>(height) / static_cast<double>(from.height);
  return boxes.mul(on_device_of(boxes, {x, y, x, y}, at::kFloat)).to(boxes.scalar_type());
}

/// Replaces the edges at `first` and `first` + 2 by their distances from the other side.
inline at::Tensor flip_boxes(const at::Tensor& boxes, std::int64_t first, std::int64_t side) {
  at::Tensor made = boxes.clone();
  const auto length = static_cast<double>(side);
  made.select(-1, first).copy_(boxes.select(-1, first + 2).sub(length).neg_());
  made.select(-1, first + 2).copy_(boxes.select(-1, first).sub(length).neg_());
  return made;
}

inline at::Tensor flip_boxes_horizontally(const at::Tensor& boxes, std::int64_t width) {
  return flip_boxes(boxes, 0, width);
}
inline at::Tensor flip_boxes_vertically(const at::Tensor& boxes, std::int64_t height) {
  return flip_boxes(boxes, 1, height);
}

inline at::Tensor rotate_boxes(const at::Tensor& boxes, const ImageShape& shape, double angle,
                               const functional::RotateOptions& options) {
  if (boxes.size(0) == 0) return boxes;
  const auto dtype = boxes.scalar_type();
  const auto w = static_cast<double>(shape.width), h = static_cast<double>(shape.height);
  const std::array<double, 2> center = options.center.value_or(std::array{w * 0.5, h * 0.5});
  const Matrix matrix = affine_matrix(center, -angle, {}, 1.0, {}, /*inverted=*/false);
  const at::Tensor turn =
      on_device_of(boxes, std::vector<double>(matrix.begin(), matrix.end()), dtype)
          .view({2, 3})
          .t();
  const std::vector<std::int64_t> corners = {0, 1, 2, 1, 2, 3, 0, 3};
  at::Tensor points = boxes.index_select(1, on_device_of(boxes, corners)).view({-1, 2});
  points = at::cat({points, at::ones({points.size(0), 1}, points.options())}, -1);
  const auto [least, most] = at::aminmax(at::matmul(points, turn).view({-1, 4, 2}), 1);
  at::Tensor made = at::cat({least, most}, 1);
  if (!options.expand) return clamp_boxes(made, shape.height, shape.width);
  const at::Tensor whole = on_device_of(boxes, {0, 0, 1, 0, h, 1, w, h, 1, w, 0, 1}, dtype);
  made.sub_(at::matmul(whole.view({4, 3}), turn).amin(0, /*keepdim=*/true).repeat({1, 2}));
  const auto [width, height] = affine_output_size(affine_matrix(center, -angle, {}, 1.0, {}, true),
                                                  shape.width, shape.height);
  return clamp_boxes(made, height, width);
}

}  // namespace detail
}  // namespace ikebana::images
