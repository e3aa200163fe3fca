#pragma once
// Encodes images for tests by libjpeg and libpng, in forms that few programs write.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ikebana/images/decode.hpp>
#include <string>
#include <vector>

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

namespace test::images {

/// Returns a picture (H, W, C) with smooth parts, edges and noise.
inline at::Tensor picture(std::int64_t height, std::int64_t width, std::int64_t channels) {
  at::Tensor pixels = at::empty({height, width, channels}, at::kByte);
  auto* to = static_cast<std::uint8_t*>(pixels.mutable_data_ptr());
  std::uint32_t noise = 1;
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x)
      for (std::int64_t c = 0; c < channels; ++c) {
        noise = noise * 1664525u + 1013904223u;
        const std::int64_t smooth = 3 * x + (c + 1) * y * 2 + (x / 7 % 2 == y / 5 % 2 ? 60 : 0);
        *to++ = static_cast<std::uint8_t>(smooth + static_cast<std::int64_t>(noise >> 28));
      }
  return pixels;
}

struct JpegForm {
  int h = 2, v = 2;  ///< samples of brightness for each of color: 2 x 2 is 4:2:0
  bool progressive = false, arithmetic = false;
  J_COLOR_SPACE space = JCS_YCbCr;  ///< in the file
  int restart_rows = 0, quality = 85;
  std::string exif = {};  ///< TIFF data
};

/// Sets the form of the file, after the size and the color space of the picture.
inline void set_form(jpeg_compress_struct& info, const JpegForm& form) {
  const bool has_colors = info.num_components > 2;
  if (has_colors) jpeg_set_colorspace(&info, form.space);
  jpeg_set_quality(&info, form.quality, TRUE);
  for (int c = 0; c < info.num_components; ++c) {
    const bool is_fine = has_colors && (c == 0 || c == 3);
    info.comp_info[c].h_samp_factor = is_fine ? form.h : 1;
    info.comp_info[c].v_samp_factor = is_fine ? form.v : 1;
  }
  info.arith_code = form.arithmetic ? TRUE : FALSE;
  info.restart_in_rows = form.restart_rows;
  if (form.progressive) jpeg_simple_progression(&info);
}

/// Encodes a picture (H, W, C) of 1, 2 or 3 channels, or of 4, which is CMYK.
inline std::string jpeg(const at::Tensor& pixels, const JpegForm& form = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&info, &bytes, &count);
  info.image_height = static_cast<JDIMENSION>(pixels.size(0));
  info.image_width = static_cast<JDIMENSION>(pixels.size(1));
  info.input_components = static_cast<int>(pixels.size(2));
  constexpr J_COLOR_SPACE spaces[] = {JCS_GRAYSCALE, JCS_UNKNOWN, JCS_RGB, JCS_CMYK};
  info.in_color_space = spaces[pixels.size(2) - 1];
  jpeg_set_defaults(&info);
  set_form(info, form);
  jpeg_start_compress(&info, TRUE);
  if (!form.exif.empty()) {
    const std::string marker = std::string("Exif\0\0", 6) + form.exif;
    jpeg_write_marker(&info, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(marker.data()),
                      static_cast<unsigned>(marker.size()));
  }
  const at::Tensor all = pixels.contiguous();
  auto* from = static_cast<std::uint8_t*>(all.data_ptr());
  while (info.next_scanline < info.image_height) {
    JSAMPROW row = from + static_cast<std::int64_t>(info.next_scanline) * all.stride(0);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string encoded(reinterpret_cast<const char*>(bytes), count);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return encoded;
}

struct PngForm {
  int depth = 8;
  int color = PNG_COLOR_TYPE_RGB;
  bool interlaced = false;
  int colors = 0;            ///< the size of the palette
  bool transparent = false;  ///< with tRNS
  std::string exif = {};     ///< TIFF data
};

/// Encodes rows of bytes as they lie in the file, such as packed ones.
inline std::string png(std::int64_t height, std::int64_t width, std::vector<std::uint8_t> rows,
                       const PngForm& form = {}) {
  std::string encoded;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &encoded,
      [](png_structp p, png_bytep bytes, std::size_t n) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(bytes), n);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               form.depth, form.color, form.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  std::vector<png_color> palette;
  for (int i = 0; i < form.colors; ++i)
    palette.push_back({png_byte(i * 37), png_byte(255 - i * 3), png_byte(i * i)});
  if (form.colors > 0) png_set_PLTE(png, info, palette.data(), form.colors);
  const png_byte alpha[] = {0, 128};
  const png_color_16 color = {0, 1, 2, 3, 1};
  if (form.transparent) png_set_tRNS(png, info, alpha, form.colors > 0 ? 2 : 0, &color);
  std::string exif = form.exif;
  if (!exif.empty())
    png_set_eXIf_1(png, info, static_cast<png_uint_32>(exif.size()),
                   reinterpret_cast<png_bytep>(exif.data()));
  std::vector<png_bytep> pointers;
  for (std::size_t y = 0; y < std::size_t(height); ++y)
    pointers.push_back(rows.data() + y * (rows.size() / std::size_t(height)));
  png_write_info(png, info);
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return encoded;
}

inline std::string png(const at::Tensor& pixels, PngForm form = {}) {
  const at::Tensor all = pixels.contiguous();
  auto* from = static_cast<const std::uint8_t*>(all.const_data_ptr());
  constexpr int colors[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGBA};
  form.color = colors[all.size(2) - 1];
  return png(all.size(0), all.size(1), {from, from + all.nbytes()}, form);
}

/// Returns TIFF data that have an orientation and nothing else.
inline std::string exif(int orientation, bool big_endian = true) {
  const std::string value(1, static_cast<char>(orientation)), zero(1, '\0');
  if (big_endian)
    return std::string("MM\0*\0\0\0\x8\0\x1\x1\x12\0\x3\0\0\0\x1\0", 19) + value +
           std::string("\0\0\0\0\0\0", 6);
  return std::string("II*\0\x8\0\0\0\x1\0\x12\x1\x3\0\x1\0\0\0", 18) + value +
         std::string("\0\0\0\0\0\0\0", 7);
}

}  // namespace test::images
