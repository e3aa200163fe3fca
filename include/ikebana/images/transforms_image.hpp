#pragma once
// Reads and checks the tensors that transforms of images take.
#include <array>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/images/transforms_values.hpp>
#include <string>

namespace ikebana::images {

/// The sizes of an image without its batch.
struct ImageShape {
  std::int64_t channels;  ///< 1 for grey images, 3 for RGB
  std::int64_t height;    ///< rows
  std::int64_t width;     ///< columns
};

namespace detail {

/// Returns the sizes of an image (C, H, W), or of each in a batch (N, C, H, W). Throws BadBatch for
/// another number of dimensions, for a dtype that is neither Byte nor floating-point, and if the
/// channels are in the last dimension.
ImageShape shape_of(const char* who, const at::Tensor& image);
/// Throws BadBatch if an image has neither 1 nor 3 channels.
void check_colours(const char* who, const at::Tensor& image);
/// Throws BadBatch if values of a floating-point image on a CPU are outside of [0, 1], or NaN. An
/// image on a device is not read, because that would wait for the device.
void check_unit_range(const char* who, const at::Tensor& image);

/// Throws BadValue unless `value` lies in [low, high].
void check_between(const char* who, const char* name, double value, double low, double high);
/// Throws BadValue unless `value` is finite, and 0 or more, or more than 0.
void check_finite(const char* who, const char* name, double value);
void check_not_negative(const char* who, const char* name, double value);
void check_positive(const char* who, const char* name, double value);
/// Throws BadValue unless both sides are 1 or more.
void check_size(const char* who, const Size& size);
/// Throws BadValue unless a fill has no number, one, or one per channel, all finite.
void check_fill(const char* who, const Fill& fill, std::int64_t channels);

/// Returns the memory format of an image of any layout: ChannelsLast if its channels are innermost.
at::MemoryFormat layout_of(const at::Tensor& image);
/// Returns `made` with its channels innermost if `image` has them there. Copies it only if they are
/// not.
at::Tensor in_layout_of(const at::Tensor& image, at::Tensor made);
/// Returns a new tensor with these sizes, the dtype, device and layout of `image`.
at::Tensor empty_like_layout(const at::Tensor& image, std::int64_t height, std::int64_t width);

/// Returns the largest value of a pixel: 255 for Byte and 1 for a floating-point dtype.
inline double max_value(const at::Tensor& image) { return image.is_floating_point() ? 1 : 255; }
/// Returns the dtype in which an image is computed with.
inline at::ScalarType computed_in(const at::Tensor& image) {
  return image.is_floating_point() ? image.scalar_type() : at::kFloat;
}
/// Copies numbers to the device of an image. The host does not wait for it.
at::Tensor on_device_of(const at::Tensor& image, const std::vector<double>& numbers,
                        at::ScalarType dtype);
/// Copies indices to the device of an image. The host does not wait for it.
at::Tensor on_device_of(const at::Tensor& image, const std::vector<std::int64_t>& numbers);
/// Returns a fill as a tensor (C or 1, 1, 1) of the image's dtype.
at::Tensor fill_tensor(const at::Tensor& image, const Fill& fill, at::ScalarType dtype);

/// Returns a text with two numbers, such as `32 x 48`.
std::string times_text(std::int64_t height, std::int64_t width);
/// Returns a number as it would be written in code.
std::string number_text(double number);

}  // namespace detail
}  // namespace ikebana::images

#include <ikebana/images/impl/transforms_image.ipp>
