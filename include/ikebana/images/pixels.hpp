#pragma once
// Conversions of decoded pixels, which lie as (H, W, C) in memory.
#include <cstddef>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <ikebana/images/options.hpp>
#include <string_view>

namespace ikebana::images::detail {

/// A decoded image before its conversion.
struct Pixels {
  at::Tensor values;    ///< Byte or UInt16 (H, W, C), contiguous
  int orientation = 1;  ///< by EXIF, 1 to 8
};

/// Turns and mirrors pixels (H, W, C) as an EXIF orientation says. Returns them contiguous; copies
/// them unless the orientation is 1.
at::Tensor oriented(const at::Tensor& pixels, int orientation);

/// Returns RGB (H, W, 3) of CMYK (H, W, 4) as Pillow computes it.
at::Tensor rgb_of_cmyk(const at::Tensor& pixels);

/// Returns the luma (H, W, 1) of RGB (H, W, 3) as Pillow computes it.
at::Tensor gray_of_rgb(const at::Tensor& pixels);

/// Throws BadFile for an image that cannot be decoded.
[[noreturn]] void throw_damaged(std::string_view name, const char* format, const char* what,
                                std::size_t byte, std::size_t bytes);
/// Throws OutOfMemory because a decoder could not allocate.
[[noreturn]] void throw_no_memory(std::string_view name);
/// Throws BadFile for an image without pixels or with too many.
void check_pixels(std::string_view name, std::int64_t width, std::int64_t height,
                  const DecodeOptions& options);

}  // namespace ikebana::images::detail

#include <ikebana/images/impl/pixels.ipp>
