#pragma once
// Moves the pixels of a batch whose images have parameters of their own, by a few operators for
// all.
#include <ikebana/images/transforms_geometry.hpp>
#include <ikebana/images/transforms_grouped.hpp>

namespace ikebana::images {

namespace detail {

inline at::Tensor flip_some(const at::Tensor& images, std::int64_t dim,
                            std::span<const Happens> drawn) {
  std::vector<double> flags;
  std::size_t count = 0;
  for (const Happens& one : drawn) flags.push_back(one.happens), count += one.happens;
  if (count == 0) return images;
  if (count == drawn.size()) return images.flip(dim);
  const at::Tensor flipped = on_device_of(images, flags, at::kBool).view({-1, 1, 1, 1});
  return in_layout_of(images, at::where(flipped, images.flip(dim), images));
}

/// Returns the indices of all images' lines in one list, and whether one is outside.
struct Lines {
  std::vector<std::int64_t> indices = {};
  std::vector<double> outside = {};
  bool is_any_outside = false;

  void add(const std::vector<std::int64_t>& more) {
    for (std::int64_t index : more) {
      indices.push_back(index < 0 ? 0 : index);
      outside.push_back(index < 0 ? 1 : 0);
      is_any_outside = is_any_outside || index < 0;
    }
  }
};

}  // namespace detail

inline at::Tensor RandomHorizontalFlip::apply_each(const at::Tensor& images,
                                                   std::span<const Parameters> drawn) const {
  return detail::flip_some(images, -1, drawn);
}
inline at::Tensor RandomVerticalFlip::apply_each(const at::Tensor& images,
                                                 std::span<const Parameters> drawn) const {
  return detail::flip_some(images, -2, drawn);
}

inline at::Tensor RandomCrop::apply_each(const at::Tensor& images,
                                         std::span<const Parameters> drawn) const {
  const std::int64_t n = images.size(0), c = images.size(1), height = images.size(2),
                     width = images.size(3), h = size.height, w = size.square_width();
  detail::Lines rows, columns;
  for (const Rectangle& r : drawn) {
    rows.add(detail::source_indices(padding_mode, height, r.top, h));
    columns.add(detail::source_indices(padding_mode, width, r.left, w));
  }
  const at::Tensor row = detail::on_device_of(images, rows.indices).view({n, 1, h, 1});
  const at::Tensor column = detail::on_device_of(images, columns.indices).view({n, 1, 1, w});
  at::Tensor made =
      images.gather(2, row.expand({n, c, h, width})).gather(3, column.expand({n, c, h, w}));
  if (rows.is_any_outside || columns.is_any_outside) {
    const at::Tensor outside =
        detail::on_device_of(images, rows.outside, at::kBool).view({n, 1, h, 1}) |
        detail::on_device_of(images, columns.outside, at::kBool).view({n, 1, 1, w});
    made = at::where(outside, detail::fill_tensor(images, fill, images.scalar_type()), made);
  }
  return detail::in_layout_of(images, made);
}

inline at::Tensor RandomRotation::apply_each(const at::Tensor& images,
                                             std::span<const Parameters> drawn) const {
  const ImageShape shape = detail::shape_of(name, images);
  bool has_grids = !expand;
  std::vector<detail::Matrix> matrices;
  for (const Parameters& one : drawn) {
    const double angle = detail::positive_angle(one.angle);
    has_grids = has_grids && detail::quarter_turns(shape, angle, options()) < 0;
    matrices.push_back(detail::rotation_matrix(shape, angle, center));
  }
  if (!has_grids)
    return detail::apply_grouped(images, drawn, [&](const at::Tensor& rows, const Parameters& one) {
      return apply(rows, one);
    });
  return detail::sample_grid(images,
                             detail::affine_grid(images, matrices, shape.height, shape.width),
                             interpolation, fill);
}

}  // namespace ikebana::images
