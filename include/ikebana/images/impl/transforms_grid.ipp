#pragma once
// Rotation and other linear maps, by a grid of the places that pixels come from. The operators and
// their order are torchvision's, so that the bits are, too.
#include <algorithm>
#include <cmath>
#include <ikebana/images/transforms_geometry_functions.hpp>
#include <numbers>

namespace ikebana::images::detail {

inline double radians(double degrees) { return degrees * (std::numbers::pi / 180.0); }

inline Matrix affine_matrix(std::array<double, 2> center, double angle,
                            std::array<double, 2> translate, double scale,
                            std::array<double, 2> shear, bool inverted) {
  const double turn = radians(angle), sx = radians(shear[0]), sy = radians(shear[1]);
  const auto [cx, cy] = center;
  const double moved_x = cx + translate[0], moved_y = cy + translate[1];
  const double a = std::cos(turn - sy) / std::cos(sy);
  const double b = -(a * std::tan(sx) + std::sin(turn));
  const double c = std::sin(turn - sy) / std::cos(sy);
  const double d = std::cos(turn) - c * std::tan(sx);
  if (inverted) {
    Matrix m = {d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0};
    m[2] += cx - m[0] * moved_x - m[1] * moved_y;
    m[5] += cy - m[3] * moved_x - m[4] * moved_y;
    return m;
  }
  Matrix m = {a * scale, b * scale, 0.0, c * scale, d * scale, 0.0};
  m[2] += moved_x - m[0] * cx - m[1] * cy;
  m[5] += moved_y - m[3] * cx - m[4] * cy;
  return m;
}

inline std::array<std::int64_t, 2> affine_output_size(const Matrix& matrix, std::int64_t width,
                                                      std::int64_t height) {
  const double w = 0.5 * static_cast<double>(width), h = 0.5 * static_cast<double>(height);
  const std::vector<double> corners = {-w, -h, 1, -w, h, 1, w, h, 1, w, -h, 1};
  const std::vector<double> theta(matrix.begin(), matrix.end());
  const auto floats = [](const std::vector<double>& list, std::int64_t rows) {
    return at::tensor(list, at::kDouble).to(at::kFloat).view({rows, -1});
  };
  const auto [least, most] = at::matmul(floats(corners, 4), floats(theta, 2).t()).aminmax(0);
  const at::Tensor half = floats({w, h}, 1).view(-1);
  constexpr double tolerance = 1e-4;  // so that rounding makes no other size
  const auto cut = [&](const at::Tensor& t) {
    return t.add(half).mul_(1.0 / tolerance).trunc_().mul_(tolerance);
  };
  const at::Tensor size = cut(most).ceil_().sub_(cut(least).floor_());
  return {static_cast<std::int64_t>(size[0].item<float>()),
          static_cast<std::int64_t>(size[1].item<float>())};
}

inline at::Tensor affine_grid(const at::Tensor& image, const std::vector<Matrix>& matrices,
                              std::int64_t height, std::int64_t width) {
  const auto dtype = computed_in(image);
  const auto n = static_cast<std::int64_t>(matrices.size());
  std::vector<double> numbers;
  for (const Matrix& m : matrices) numbers.insert(numbers.end(), m.begin(), m.end());
  at::Tensor theta = on_device_of(image, numbers, dtype).view({n, 2, 3});
  const auto options = image.options().dtype(dtype), floats = options.dtype(at::kFloat);
  const auto w = static_cast<double>(width), h = static_cast<double>(height);
  at::Tensor base = at::empty({1, height, width, 3}, options);
  base.select(-1, 0).copy_(at::linspace((1.0 - w) * 0.5, (w - 1.0) * 0.5, width, floats));
  base.select(-1, 1).copy_(
      at::linspace((1.0 - h) * 0.5, (h - 1.0) * 0.5, height, floats).unsqueeze_(-1));
  base.select(-1, 2).fill_(1);
  const std::vector<double> half = {0.5 * static_cast<double>(image.size(-1)),
                                    0.5 * static_cast<double>(image.size(-2))};
  const at::Tensor scaled = theta.transpose(1, 2).div_(on_device_of(image, half, dtype));
  return base.view({1, height * width, 3})
      .expand({n, height * width, 3})
      .bmm(scaled)
      .view({n, height, width, 2});
}

inline at::Tensor sample_grid(const at::Tensor& image, const at::Tensor& given,
                              InterpolationMode mode, const std::optional<Fill>& fill) {
  const bool is_exact = image.scalar_type() == given.scalar_type();
  at::Tensor batch = image.dim() == 3 ? image.unsqueeze(0) : image;
  at::Tensor values = is_exact ? batch : batch.to(given.scalar_type());
  const std::int64_t n = values.size(0), channels = values.size(1);
  const at::Tensor grid = given.size(0) == n ? given : given.expand({n, -1, -1, -1});
  if (fill)
    values =
        at::cat({values, at::ones({n, 1, image.size(-2), image.size(-1)}, values.options())}, 1);
  constexpr std::int64_t bilinear = 0, nearest = 1, zeros = 0;
  const bool is_nearest = mode == InterpolationMode::Nearest;
  values = at::grid_sampler(values, grid, is_nearest ? nearest : bilinear, zeros, false);
  if (fill) {
    const at::Tensor mask = values.narrow(1, channels, 1).expand({-1, channels, -1, -1});
    values = values.narrow(1, 0, channels);
    const at::Tensor outside = fill_tensor(image, *fill, given.scalar_type()).unsqueeze(0);
    if (is_nearest) values = at::where(mask < 0.5, outside.expand_as(values), values);
    else values = values.sub_(outside).mul_(mask).add_(outside);
  }
  if (!is_exact) values = values.round_().to(image.scalar_type());
  return in_layout_of(image, image.dim() == 3 ? values.squeeze(0) : values);
}

inline double positive_angle(double angle) {
  const double rest = std::fmod(angle, 360.0);
  return rest < 0 ? rest + 360.0 : rest;
}

inline int quarter_turns(const ImageShape& shape, double angle,
                         const functional::RotateOptions& options) {
  if (options.center) return -1;
  if (angle == 0) return 0;
  if (angle == 180) return 2;
  if (!options.expand && shape.height != shape.width) return -1;
  return angle == 90 ? 1 : angle == 270 ? 3 : -1;
}

inline std::array<double, 2> from_middle(const ImageShape& shape,
                                         const std::optional<std::array<double, 2>>& center) {
  if (!center) return {0.0, 0.0};
  return {(*center)[0] - static_cast<double>(shape.width) * 0.5,
          (*center)[1] - static_cast<double>(shape.height) * 0.5};
}

inline Matrix rotation_matrix(const ImageShape& shape, double angle,
                              const std::optional<std::array<double, 2>>& center) {
  return affine_matrix(from_middle(shape, center), -angle, {}, 1.0, {}, true);
}

inline void check_grid(const char* who, InterpolationMode mode, const std::optional<Fill>& fill,
                       std::int64_t channels) {
  if (mode != InterpolationMode::Nearest && mode != InterpolationMode::Bilinear)
    throw BadValue(std::string(who) +
                   ": interpolation must be InterpolationMode::Nearest or Bilinear.");
  if (fill) check_fill(who, *fill, channels);
}

/// Rotates without checks, for an angle in [0, 360).
inline at::Tensor rotated(const at::Tensor& image, double angle,
                          const functional::RotateOptions& options) {
  const ImageShape shape = {image.size(-3), image.size(-2), image.size(-1)};
  const int turns = quarter_turns(shape, angle, options);
  if (turns == 0) return image;
  if (turns > 0) return in_layout_of(image, at::rot90(image, turns, {-2, -1}));
  const Matrix matrix = rotation_matrix(shape, angle, options.center);
  std::array<std::int64_t, 2> size = {shape.width, shape.height};
  if (options.expand) size = affine_output_size(matrix, shape.width, shape.height);
  return sample_grid(image, affine_grid(image, {matrix}, size[1], size[0]), options.interpolation,
                     options.fill);
}

inline at::Tensor rotate_masks(const at::Tensor& masks, double angle,
                               const functional::RotateOptions& options) {
  return as_image(masks, [&](const at::Tensor& image) {
    functional::RotateOptions nearest = options;
    nearest.interpolation = InterpolationMode::Nearest;
    if (nearest.fill) nearest.fill = Fill{0};
    return rotated(image, positive_angle(angle), nearest);
  });
}

}  // namespace ikebana::images::detail

namespace ikebana::images::functional {

inline at::Tensor rotate(const at::Tensor& image, double angle, const RotateOptions& options) {
  const ImageShape shape = detail::shape_of("rotate", image);
  detail::check_finite("rotate", "angle", angle);
  detail::check_grid("rotate", options.interpolation, options.fill, shape.channels);
  if (options.center)
    for (double place : *options.center) detail::check_finite("rotate", "center", place);
  return detail::rotated(image, detail::positive_angle(angle), options);
}

inline at::Tensor affine(const at::Tensor& image, const AffineOptions& options) {
  const ImageShape shape = detail::shape_of("affine", image);
  detail::check_finite("affine", "angle", options.angle);
  detail::check_positive("affine", "scale", options.scale);
  for (int i : {0, 1}) {
    detail::check_finite("affine", "translate", options.translate[static_cast<std::size_t>(i)]);
    detail::check_finite("affine", "shear", options.shear[static_cast<std::size_t>(i)]);
  }
  detail::check_grid("affine", options.interpolation, options.fill, shape.channels);
  const detail::Matrix matrix =
      detail::affine_matrix(detail::from_middle(shape, options.center), options.angle,
                            options.translate, options.scale, options.shear, true);
  return detail::sample_grid(image, detail::affine_grid(image, {matrix}, shape.height, shape.width),
                             options.interpolation, options.fill);
}

}  // namespace ikebana::images::functional
