#pragma once
#include <png.h>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <ikebana/images/exif.hpp>
#include <ikebana/images/png.hpp>
#include <string>
#include <vector>

namespace ikebana::images::detail {

/// RAII: libpng's reader, its position and what its errors leave. As for JPEG, no objects with
/// destructors are between the functions that call `setjmp` and libpng.
struct PngReader {
  std::span<const std::byte> bytes;
  std::size_t at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  int passes = 1;  ///< more than one if it is interlaced
  std::jmp_buf jump;
  char message[200]{};

  explicit PngReader(std::span<const std::byte> all) : bytes(all) {}
  ~PngReader() {
    if (png != nullptr) png_destroy_read_struct(&png, &info, nullptr);
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

[[noreturn]] inline void png_failed(png_structp png, png_const_charp what) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader.message, what, sizeof reader.message - 1);
  std::longjmp(reader.jump, 1);
}

inline void png_give(png_structp png, png_bytep to, std::size_t n) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (reader.bytes.size() - reader.at < n) png_error(png, "it ends early");
  std::memcpy(to, reader.bytes.data() + reader.at, n);
  reader.at += n;
}

inline bool read_png_header(PngReader& reader) {
  if (setjmp(reader.jump) != 0) return false;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, png_failed,
                                      [](png_structp, png_const_charp) {});
  if (reader.png == nullptr) return false;
  reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) return false;
  png_set_read_fn(reader.png, &reader, png_give);
  png_set_user_limits(reader.png, 0x7fffffff, 0x7fffffff);  // max_pixels is checked instead
  png_read_info(reader.png, reader.info);
  return true;
}

/// Chooses the conversions of libpng. A palette's indices stay: rgb_of_palette looks them up.
inline bool choose_png_channels(PngReader& reader, ImageReadMode mode) {
  if (setjmp(reader.jump) != 0) return false;
  const int color = png_get_color_type(reader.png, reader.info);
  const bool is_gray = (color & (PNG_COLOR_MASK_COLOR | PNG_COLOR_MASK_PALETTE)) == 0;
  if (color == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(reader.png);
  else png_set_packing(reader.png);
  if (mode != ImageReadMode::Unchanged) {
    png_set_strip_16(reader.png);
    png_set_strip_alpha(reader.png);
    if (is_gray && mode == ImageReadMode::RGB) png_set_gray_to_rgb(reader.png);
  } else if (std::endian::native == std::endian::little) {
    png_set_swap(reader.png);
  }
  reader.passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

inline bool read_png_rows(PngReader& reader, png_bytep to, std::size_t row_bytes) {
  if (setjmp(reader.jump) != 0) return false;
  const png_uint_32 height = png_get_image_height(reader.png, reader.info);
  for (int pass = 0; pass < reader.passes; ++pass)
    for (png_uint_32 y = 0; y < height; ++y)
      png_read_row(reader.png, to + std::size_t{y} * row_bytes, nullptr);
  png_read_end(reader.png, reader.info);
  return true;
}

/// Throws the error that a function above has left.
[[noreturn]] inline void throw_png(const PngReader& reader, std::string_view name) {
  if (reader.png == nullptr || reader.info == nullptr ||
      std::string_view(reader.message).find("memory") != std::string_view::npos)
    throw_no_memory(name);
  throw_damaged(name, "PNG", reader.message, reader.at, reader.bytes.size());
}

/// Returns the bytes of a text of ImageMagick, `Raw profile type exif`: three lines of heading,
/// then hexadecimal digits.
inline std::vector<std::byte> bytes_of_profile(std::string_view text) {
  for (int line = 0; line < 3; ++line) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return {};
    text.remove_prefix(end + 1);
  }
  std::vector<std::byte> bytes;
  unsigned value = 0, digits = 0;
  for (const char c : text) {
    if (c == '\n') continue;
    const unsigned digit = c >= '0' && c <= '9'   ? unsigned(c - '0')
                           : c >= 'a' && c <= 'f' ? unsigned(c - 'a' + 10)
                                                  : 16u;
    if (digit == 16) return {};
    value = value << 4 | digit;
    if (++digits % 2 == 0) bytes.push_back(static_cast<std::byte>(value & 0xff));
  }
  return bytes;
}

/// Returns the orientation of EXIF data with or without the marker of JPEG before them.
inline int png_exif_orientation(std::span<const std::byte> data) {
  if (data.size() >= 6 && std::memcmp(data.data(), "Exif\0\0", 6) == 0) data = data.subspan(6);
  return exif_orientation(data);
}

inline int png_orientation(PngReader& reader) {
  png_uint_32 count = 0;
  png_bytep exif = nullptr;
  int found = 0;
  if (png_get_eXIf_1(reader.png, reader.info, &count, &exif) != 0 && exif != nullptr)
    found = png_exif_orientation(std::as_bytes(std::span(exif, count)));
  png_textp texts = nullptr;
  int n = 0;
  png_get_text(reader.png, reader.info, &texts, &n);
  for (int pass = 0; pass < 2; ++pass)  // an old EXIF profile comes before XMP
    for (int i = 0; i < n && found == 0; ++i) {
      const std::string_view key = texts[i].key;
      const std::size_t length =
          texts[i].compression > 0 ? texts[i].itxt_length : texts[i].text_length;
      if (texts[i].text == nullptr) continue;
      const std::string_view text(texts[i].text, length);
      if (pass == 0 && key.starts_with("Raw profile type") && key.ends_with(" exif"))
        found = png_exif_orientation(bytes_of_profile(text));
      if (pass == 1 && key == "XML:com.adobe.xmp") found = xmp_orientation(text);
    }
  return found != 0 ? found : 1;
}

/// Returns the colors (H, W, 3) of a palette's indices (H, W, 1).
inline at::Tensor rgb_of_palette(const PngReader& reader, const at::Tensor& indices,
                                 std::string_view name) {
  png_colorp colors = nullptr;
  int count = 0;
  png_get_PLTE(reader.png, reader.info, &colors, &count);
  at::Tensor rgb = at::empty({indices.size(0), indices.size(1), 3}, at::kByte);
  const auto* from = static_cast<const std::uint8_t*>(indices.const_data_ptr());
  auto* to = static_cast<std::uint8_t*>(rgb.mutable_data_ptr());
  for (std::int64_t i = 0; i < indices.numel(); ++i, to += 3) {
    if (from[i] >= count)
      throw BadFile("images: " + std::string(name) + " has a pixel of color " +
                    std::to_string(from[i]) + ", and its palette has " + std::to_string(count) +
                    " colors. Replace the file, or read the indices (ImageReadMode::Unchanged).");
    to[0] = colors[from[i]].red, to[1] = colors[from[i]].green, to[2] = colors[from[i]].blue;
  }
  return rgb;
}

inline Pixels decode_png(std::span<const std::byte> bytes, const DecodeOptions& options,
                         std::string_view name) {
  PngReader reader(bytes);
  if (!read_png_header(reader)) throw_png(reader, name);
  const std::int64_t width = png_get_image_width(reader.png, reader.info);
  const std::int64_t height = png_get_image_height(reader.png, reader.info);
  check_pixels(name, width, height, options);
  if (!choose_png_channels(reader, options.mode)) throw_png(reader, name);
  const bool is_16 = png_get_bit_depth(reader.png, reader.info) == 16;
  at::Tensor pixels = at::empty({height, width, png_get_channels(reader.png, reader.info)},
                                is_16 ? at::kUInt16 : at::kByte);
  const std::size_t row_bytes = png_get_rowbytes(reader.png, reader.info);
  if (row_bytes * static_cast<std::size_t>(height) != pixels.nbytes())
    throw BadFile("images: " + std::string(name) + " is a PNG of an unknown layout. Convert it.");
  if (!read_png_rows(reader, static_cast<png_bytep>(pixels.mutable_data_ptr()), row_bytes))
    throw_png(reader, name);
  const bool has_palette = png_get_color_type(reader.png, reader.info) == PNG_COLOR_TYPE_PALETTE;
  if (has_palette && options.mode != ImageReadMode::Unchanged)
    pixels = rgb_of_palette(reader, pixels, name);
  return {pixels, png_orientation(reader)};
}

}  // namespace ikebana::images::detail
