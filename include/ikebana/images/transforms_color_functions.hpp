#pragma once
// Defines the functions on colours of images, without random numbers.
#include <ikebana/images/transforms_image.hpp>

/// The functions that the transforms consist of, as torchvision.transforms.v2.functional on
/// tensors: of images (C, H, W) or batches (N, C, H, W), Byte or floating-point in [0, 1], of 1 or
/// 3 channels. The result has the dtype and the layout of the image, which is not changed; it may
/// be the image itself if there is nothing to do. Errors: BadBatch for an image that does not fit,
/// BadValue for a parameter out of range.
namespace ikebana::images::functional {

/// Multiplies by a factor of 0 or more: 0 is black.
at::Tensor adjust_brightness(const at::Tensor& image, double factor);
/// Blends with the mean of the grey image: 0 is grey, 1 the image.
at::Tensor adjust_contrast(const at::Tensor& image, double factor);
/// Blends with the grey image: 0 is grey, 1 the image.
at::Tensor adjust_saturation(const at::Tensor& image, double factor);
/// Turns the hue by a part of the circle, -0.5 to 0.5.
at::Tensor adjust_hue(const at::Tensor& image, double factor);
/// Blends with a blurred image: 0 is blurred, 1 the image, 2 sharper.
at::Tensor adjust_sharpness(const at::Tensor& image, double factor);
/// Raises values in [0, 1] to a power of 0 or more, then multiplies by `gain`.
at::Tensor adjust_gamma(const at::Tensor& image, double gamma, double gain = 1);
/// Keeps the highest bits of each value, 0 to 8.
at::Tensor posterize(const at::Tensor& image, std::int64_t bits);
/// Inverts values that are `threshold` or more.
at::Tensor solarize(const at::Tensor& image, double threshold);
/// Spreads each channel over the whole range of values.
at::Tensor autocontrast(const at::Tensor& image);
/// Makes the histogram of each channel flat, as Pillow does.
at::Tensor equalize(const at::Tensor& image);
/// Subtracts each value from the largest.
at::Tensor invert(const at::Tensor& image);
/// Returns the grey image with 1 channel, or with 3 equal ones.
at::Tensor rgb_to_grayscale(const at::Tensor& image, std::int64_t num_output_channels = 1);
/// Returns a Float image: Byte is divided by 255.
at::Tensor to_float(const at::Tensor& image);
/// Subtracts the mean of each channel and divides by its standard deviation. Only floating-point.
at::Tensor normalize(const at::Tensor& image, const std::vector<double>& mean,
                     const std::vector<double>& std);
/// Blurs by a Gaussian of `kernel_size` rows and columns, which is odd, and of the standard
/// deviation `sigma` in pixels.
at::Tensor gaussian_blur(const at::Tensor& image, std::int64_t kernel_size, double sigma);

}  // namespace ikebana::images::functional

namespace ikebana::images::detail {

/// One factor for all images, or a tensor (N, 1, 1, 1) with one per image of a batch.
struct Factors {
  double one = 0;            ///< used if `each` is undefined
  at::Tensor each = {};      ///< Float, or the image's dtype if that is floating-point
  at::Tensor one_less = {};  ///< 1 minus `each`, computed in double precision
};

/// The functions with the same names in `functional`, without checks.
at::Tensor brightness(const at::Tensor& image, const Factors& factors);
at::Tensor contrast(const at::Tensor& image, const Factors& factors);
at::Tensor saturation(const at::Tensor& image, const Factors& factors);
at::Tensor hue(const at::Tensor& image, const Factors& factors);

}  // namespace ikebana::images::detail

#include <ikebana/images/impl/transforms_color_functions.ipp>
#include <ikebana/images/impl/transforms_histogram.ipp>
#include <ikebana/images/impl/transforms_hue.ipp>
