#pragma once
#include <ikebana/images/pixels.hpp>
#include <string>

namespace ikebana::images::detail {

inline at::Tensor oriented(const at::Tensor& pixels, int orientation) {
  const at::Tensor& x = pixels;
  switch (orientation) {
    case 2:
      return x.flip(1).contiguous();
    case 3:
      return x.flip({0, 1}).contiguous();
    case 4:
      return x.flip(0).contiguous();
    case 5:
      return x.transpose(0, 1).contiguous();
    case 6:
      return x.flip(0).transpose(0, 1).contiguous();
    case 7:
      return x.flip({0, 1}).transpose(0, 1).contiguous();
    case 8:
      return x.flip(1).transpose(0, 1).contiguous();
    default:
      return x;
  }
}

/// Returns a * b / 255, rounded as Pillow's MULDIV255 does.
inline unsigned times_over_255(unsigned a, unsigned b) {
  const unsigned t = a * b + 128;
  return ((t >> 8) + t) >> 8;
}

inline at::Tensor rgb_of_cmyk(const at::Tensor& pixels) {
  at::Tensor rgb = at::empty({pixels.size(0), pixels.size(1), 3}, at::kByte);
  const auto* from = static_cast<const std::uint8_t*>(pixels.const_data_ptr());
  auto* to = static_cast<std::uint8_t*>(rgb.mutable_data_ptr());
  const std::int64_t count = pixels.size(0) * pixels.size(1);
  for (std::int64_t i = 0; i < count; ++i, from += 4, to += 3) {
    const unsigned light = 255u - from[3];
    for (int c = 0; c < 3; ++c)
      to[c] = static_cast<std::uint8_t>(light - times_over_255(from[c], light));
  }
  return rgb;
}

inline at::Tensor gray_of_rgb(const at::Tensor& pixels) {
  at::Tensor gray = at::empty({pixels.size(0), pixels.size(1), 1}, at::kByte);
  const auto* from = static_cast<const std::uint8_t*>(pixels.const_data_ptr());
  auto* to = static_cast<std::uint8_t*>(gray.mutable_data_ptr());
  for (std::int64_t i = 0; i < gray.numel(); ++i, from += 3)
    to[i] = static_cast<std::uint8_t>(
        (from[0] * 19595u + from[1] * 38470u + from[2] * 7471u + 0x8000u) >> 16);
  return gray;
}

inline void throw_damaged(std::string_view name, const char* format, const char* what,
                          std::size_t byte, std::size_t bytes) {
  std::string text = what;
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  throw BadFile("images: " + std::string(name) + " is a " + format + " that cannot be decoded: " +
                text + " (near byte " + std::to_string(byte) + " of " + std::to_string(bytes) +
                "). Replace the file, or leave such files out (SkipBad).");
}

inline void throw_no_memory(std::string_view name) {
  throw OutOfMemory("images: there is no memory left to decode " + std::string(name) +
                    ". Free memory on the machine, or use fewer workers.");
}

inline void check_pixels(std::string_view name, std::int64_t width, std::int64_t height,
                         const DecodeOptions& options) {
  if (width > 0 && height > 0 && height <= options.max_pixels / width) return;
  throw BadFile("images: " + std::string(name) + " has " + std::to_string(width) + " x " +
                std::to_string(height) + " pixels, and max_pixels allows 1 to " +
                std::to_string(options.max_pixels) +
                ". If the file is meant to be so large, raise max_pixels.");
}

}  // namespace ikebana::images::detail
