#pragma once
#include <csetjmp>
#include <cstdio>
// jpeglib.h needs <cstdio>.
#include <jerror.h>
#include <jpeglib.h>
#include <cstring>
#include <ikebana/images/exif.hpp>
#include <ikebana/images/jpeg.hpp>
#include <string>

namespace ikebana::images::detail {

/// RAII: the decompressor and what its errors leave. libjpeg reports an error by longjmp, so the
/// functions that call `setjmp` have no objects with destructors, and nothing of C++ is between
/// them and libjpeg.
struct JpegReader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX]{};

  JpegReader();
  ~JpegReader() { jpeg_destroy_decompress(&info); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
};

[[noreturn]] inline void jpeg_failed(j_common_ptr info) {
  auto& reader = *static_cast<JpegReader*>(info->client_data);
  (*info->err->format_message)(info, reader.message);
  std::longjmp(reader.jump, 1);
}

/// Decides about a warning of libjpeg, which goes on with grey pixels where data are missing.
/// Pixels are complete despite bytes that are left over between markers, which some cameras write,
/// or an unknown version of JFIF or Adobe's marker; other warnings are errors here.
inline void jpeg_warned(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level >= 0 || code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR ||
      code == JWRN_ADOBE_XFORM)
    return;
  jpeg_failed(info);
}

/// Ends a progressive image of very many scans, each of which takes time for all pixels.
inline void jpeg_progressed(j_common_ptr info) {
  constexpr int max_scans = 1000;
  auto& reader = *static_cast<JpegReader*>(info->client_data);
  if (reader.info.input_scan_number <= max_scans) return;
  std::strcpy(reader.message, "too many scans");
  std::longjmp(reader.jump, 1);
}

inline JpegReader::JpegReader() {
  info.err = jpeg_std_error(&errors);
  info.client_data = this;
  errors.error_exit = jpeg_failed;
  errors.emit_message = jpeg_warned;
  errors.output_message = [](j_common_ptr) {};
  progress.progress_monitor = jpeg_progressed;
}

inline bool read_jpeg_header(JpegReader& reader, const unsigned char* bytes, unsigned long n) {
  if (setjmp(reader.jump) != 0) return false;
  jpeg_create_decompress(&reader.info);
  reader.info.progress = &reader.progress;
  jpeg_mem_src(&reader.info, bytes, n);
  jpeg_save_markers(&reader.info, JPEG_APP0 + 1, 0xFFFF);
  jpeg_read_header(&reader.info, TRUE);
  return true;
}

inline bool read_jpeg_rows(JpegReader& reader, unsigned char* to, std::size_t row_bytes) {
  if (setjmp(reader.jump) != 0) return false;
  jpeg_start_decompress(&reader.info);
  while (reader.info.output_scanline < reader.info.output_height) {
    constexpr JDIMENSION at_once = 8;
    JSAMPROW rows[at_once];
    const JDIMENSION left = reader.info.output_height - reader.info.output_scanline;
    const JDIMENSION count = left < at_once ? left : at_once;
    for (JDIMENSION i = 0; i < count; ++i)
      rows[i] = to + (reader.info.output_scanline + i) * row_bytes;
    jpeg_read_scanlines(&reader.info, rows, count);
  }
  jpeg_finish_decompress(&reader.info);
  return true;
}

/// Returns the orientation that EXIF, or else XMP, gives; 1 if neither does.
inline int jpeg_orientation(const jpeg_decompress_struct& info) {
  constexpr std::string_view exif{"Exif\0\0", 6}, xmp{"http://ns.adobe.com/xap/1.0/\0", 29};
  int by_exif = 0, by_xmp = 0;
  for (const auto* marker = info.marker_list; marker != nullptr; marker = marker->next) {
    const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (by_exif == 0 && data.starts_with(exif))
      by_exif = exif_orientation(std::as_bytes(std::span(data.substr(exif.size()))));
    if (by_xmp == 0 && data.starts_with(xmp)) by_xmp = xmp_orientation(data.substr(xmp.size()));
  }
  return by_exif != 0 ? by_exif : by_xmp != 0 ? by_xmp : 1;
}

/// Throws the error that a function above has left.
[[noreturn]] inline void throw_jpeg(const JpegReader& reader, std::size_t bytes,
                                    std::string_view name) {
  if (reader.errors.msg_code == JERR_OUT_OF_MEMORY) throw_no_memory(name);
  const std::size_t left = reader.info.src != nullptr ? reader.info.src->bytes_in_buffer : 0;
  throw_damaged(name, "JPEG", reader.message, left < bytes ? bytes - left : 0, bytes);
}

/// Chooses the channels that libjpeg gives. Returns their number, or 0 for an unknown color space.
inline int choose_jpeg_channels(jpeg_decompress_struct& info, ImageReadMode mode) {
  switch (info.num_components) {
    case 1:
      info.out_color_space = mode == ImageReadMode::RGB ? JCS_RGB : JCS_GRAYSCALE;
      return mode == ImageReadMode::RGB ? 3 : 1;
    case 3:
      info.out_color_space = JCS_RGB;
      return 3;
    case 4:
      info.out_color_space = JCS_CMYK;
      return 4;
    default:
      return 0;
  }
}

inline Pixels decode_jpeg(std::span<const std::byte> bytes, const DecodeOptions& options,
                          std::string_view name) {
  JpegReader reader;
  jpeg_decompress_struct& info = reader.info;
  const auto* begin = reinterpret_cast<const unsigned char*>(bytes.data());
  if (!read_jpeg_header(reader, begin, bytes.size())) throw_jpeg(reader, bytes.size(), name);
  check_pixels(name, info.image_width, info.image_height, options);
  const int orientation = jpeg_orientation(info);  // the end of decoding frees the metadata
  const int channels = choose_jpeg_channels(info, options.mode);
  if (channels == 0)
    throw BadFile("images: " + std::string(name) + " is a JPEG of " +
                  std::to_string(info.num_components) +
                  " channels, and 1 (grey), 3 (color) and 4 (CMYK) are read. Convert it.");
  at::Tensor pixels = at::empty({static_cast<std::int64_t>(info.image_height),
                                 static_cast<std::int64_t>(info.image_width), channels},
                                at::kByte);
  auto* to = static_cast<unsigned char*>(pixels.mutable_data_ptr());
  if (!read_jpeg_rows(reader, to, std::size_t{info.image_width} * std::size_t(channels)))
    throw_jpeg(reader, bytes.size(), name);
  if (channels == 4) {
    pixels.bitwise_not_();  // CMYK is stored inverted, as Adobe does and Pillow assumes
    if (options.mode != ImageReadMode::Unchanged) pixels = rgb_of_cmyk(pixels);
  }
  return {pixels, orientation};
}

}  // namespace ikebana::images::detail
