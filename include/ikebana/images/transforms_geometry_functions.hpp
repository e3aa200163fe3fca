#pragma once
// Defines the functions on places of pixels, without random numbers.
#include <ikebana/images/transforms_image.hpp>
#include <optional>

namespace ikebana::images::functional {

/// Options of `resize`, with torchvision's defaults.
struct ResizeOptions {
  /// The rule for values between pixels.
  InterpolationMode interpolation = InterpolationMode::Bilinear;
  std::optional<std::int64_t> max_size = {};  ///< the longest that the longer side may become
  bool antialias = true;  ///< average over all covered pixels, if the mode is Bilinear or Bicubic
};
/// Options of `rotate`.
struct RotateOptions {
  InterpolationMode interpolation = InterpolationMode::Nearest;  ///< or Bilinear
  bool expand = false;  ///< makes the image as large as the rotated one
  /// The point (x, y) that stays, in pixels from the upper left corner; empty: the middle.
  std::optional<std::array<double, 2>> center = {};
  std::optional<Fill> fill = {};  ///< what is outside; empty: zeros, without antialiasing to them
};
/// Options of `affine`. The image is sheared, scaled, rotated around `center` and moved.
struct AffineOptions {
  double angle = 0;                                              ///< degrees, clockwise
  std::array<double, 2> translate = {};                          ///< pixels to the right and down
  double scale = 1;                                              ///< more than 0
  std::array<double, 2> shear = {};                              ///< degrees along x and y
  InterpolationMode interpolation = InterpolationMode::Nearest;  ///< or Bilinear
  std::optional<std::array<double, 2>> center = {};              ///< (x, y); empty: the middle
  std::optional<Fill> fill = {};                                 ///< what is outside
};

/// Returns the height and the width that `resize` makes.
std::array<std::int64_t, 2> resized_size(std::int64_t height, std::int64_t width, const Size& size,
                                         std::optional<std::int64_t> max_size = {});
/// Makes an image of another size, on a CPU from Byte directly. Returns an image that has the size
/// already. Source: torchvision.transforms.v2.functional.resize.
at::Tensor resize(const at::Tensor& image, const Size& size, const ResizeOptions& options = {});
/// Returns a part of an image, a view of its memory. What is outside of it is zero, and then the
/// part is a copy.
at::Tensor crop(const at::Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
                std::int64_t width);
/// Returns the part in the middle, a view. An image that is smaller is padded with zeros.
at::Tensor center_crop(const at::Tensor& image, const Size& size);
/// Crops, then resizes to `size`.
at::Tensor resized_crop(const at::Tensor& image, std::int64_t top, std::int64_t left,
                        std::int64_t height, std::int64_t width, const Size& size,
                        const ResizeOptions& options = {});
/// Returns the image with rows and columns around it.
at::Tensor pad(const at::Tensor& image, const Padding& padding, const Fill& fill = {},
               PaddingMode padding_mode = PaddingMode::Constant);
/// Reflects an image, left and right exchanged.
at::Tensor horizontal_flip(const at::Tensor& image);
/// Reflects an image, top and bottom exchanged.
at::Tensor vertical_flip(const at::Tensor& image);
/// Rotates by degrees, counter-clockwise.
at::Tensor rotate(const at::Tensor& image, double angle, const RotateOptions& options = {});
/// Applies a linear map and a translation.
at::Tensor affine(const at::Tensor& image, const AffineOptions& options);
/// Sets a rectangle to `value`, (C or 1, 1, 1) or (C, height, width). Returns a copy.
at::Tensor erase(const at::Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
                 std::int64_t width, const at::Tensor& value);

}  // namespace ikebana::images::functional

namespace ikebana::images::detail {

using Matrix = std::array<double, 6>;

/// Returns the matrix of `affine` around `center`, or its inverse, row by row.
Matrix affine_matrix(std::array<double, 2> center, double angle, std::array<double, 2> translate,
                     double scale, std::array<double, 2> shear, bool inverted);
/// Returns the width and the height of an expanded image.
std::array<std::int64_t, 2> affine_output_size(const Matrix& matrix, std::int64_t width,
                                               std::int64_t height);
/// Returns where each pixel of an output of `height` x `width` comes from, (n, height, width, 2),
/// by inverse matrices, one for all images or one per image.
at::Tensor affine_grid(const at::Tensor& image, const std::vector<Matrix>& matrices,
                       std::int64_t height, std::int64_t width);
/// Reads an image at the places of a grid.
at::Tensor sample_grid(const at::Tensor& image, const at::Tensor& grid, InterpolationMode mode,
                       const std::optional<Fill>& fill);
/// Returns an angle in [0, 360).
double positive_angle(double angle);
/// Returns the number of quarter turns, counter-clockwise, if `rotate` makes such a turn without a
/// grid; -1 if it does not.
int quarter_turns(const ImageShape& shape, double angle, const functional::RotateOptions& options);
/// Returns the inverse matrix of a rotation, by an angle in [0, 360).
Matrix rotation_matrix(const ImageShape& shape, double angle,
                       const std::optional<std::array<double, 2>>& center);

/// Returns the indices of the pixels in [start, start + count) of a line of `size` pixels; of those
/// outside by the mode, or -1 if it is Constant.
std::vector<std::int64_t> source_indices(PaddingMode mode, std::int64_t size, std::int64_t start,
                                         std::int64_t count);
/// Throws BadValue for a negative padding, or one for which the image is too small.
void check_padding(const char* who, const Padding& padding, PaddingMode mode,
                   const ImageShape& shape);
/// Returns the part at (top, left) of an image that is continued by the mode.
at::Tensor window(const at::Tensor& image, std::int64_t top, std::int64_t left, std::int64_t height,
                  std::int64_t width, const Fill& fill, PaddingMode mode);

/// Calls `f` with masks (H, W) or (n, H, W) as an image.
template <class F>
at::Tensor as_image(const at::Tensor& masks, const F& f) {
  return masks.dim() == 2 ? f(masks.unsqueeze(0)).squeeze(0) : f(masks);
}
/// The functions for masks: of any dtype, by their nearest pixel, and zero outside.
at::Tensor resize_masks(const at::Tensor& masks, std::int64_t height, std::int64_t width);
at::Tensor rotate_masks(const at::Tensor& masks, double angle,
                        const functional::RotateOptions& options);

}  // namespace ikebana::images::detail

#include <ikebana/images/impl/transforms_geometry_functions.ipp>
#include <ikebana/images/impl/transforms_grid.ipp>
