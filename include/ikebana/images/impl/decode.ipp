#pragma once
#include <cctype>
#include <ikebana/detail/text.hpp>
#include <ikebana/images/decode.hpp>
#include <ikebana/images/jpeg.hpp>
#include <ikebana/images/png.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <string>
#include <vector>

namespace ikebana::images::detail {

inline constexpr std::string_view jpeg_begin = "\xff\xd8\xff";
inline constexpr std::string_view png_begin = "\x89PNG\r\n\x1a\n";

/// Returns the name of another format that files of images have, or of what is stored in their
/// place; empty if it is none of these.
inline std::string_view other_format(std::string_view b) {
  const std::string_view brand = b.size() >= 12 ? b.substr(4, 8) : std::string_view{};
  if (b.starts_with("GIF8")) return "a GIF";
  if (b.starts_with("BM")) return "a BMP";
  if (b.starts_with("RIFF") && b.substr(8).starts_with("WEBP")) return "a WebP";
  if (b.starts_with(std::string_view("II*\0", 4)) || b.starts_with(std::string_view("MM\0*", 4)))
    return "a TIFF";
  if (brand.starts_with("ftypavif")) return "an AVIF";
  if (brand.starts_with("ftyphei") || brand == "ftypmif1") return "a HEIF";
  if (brand.starts_with("jP  ")) return "a JPEG 2000";
  if (b.starts_with("version https://git-lfs")) return "a pointer of Git LFS, not the image,";
  if (b.starts_with("\x1f\x8b")) return "compressed by gzip";
  const std::size_t at = b.find_first_not_of(" \t\r\n");
  if (at != b.npos && b[at] == '<') return "a page of HTML or XML";
  return {};
}

[[noreturn]] inline void throw_no_image(std::string_view begin, std::string_view name) {
  const std::string where = "images: " + std::string(name);
  if (begin.empty()) throw BadFile(where + " is empty. Replace the file.");
  if (const std::string_view other = other_format(begin); !other.empty())
    throw BadFile(where + " is " + std::string(other) +
                  ", and JPEG and PNG are decoded. Convert it, or leave it out.");
  throw BadFile(where + " is neither a JPEG nor a PNG: it begins with `" +
                ikebana::detail::escaped(begin.substr(0, 8)) +
                "`. Convert it; to decode the file of a path, call read(path).");
}

inline at::Tensor decode_named(std::span<const std::byte> bytes, const DecodeOptions& options,
                               std::string_view name) {
  if (options.max_pixels < 1)
    throw BadValue("images: max_pixels is " + std::to_string(options.max_pixels) +
                   ", and an image has at least one pixel. Leave it out for the default.");
  const std::string_view begin(reinterpret_cast<const char*>(bytes.data()),
                               bytes.size() < 32 ? bytes.size() : 32);
  Pixels image;
  if (begin.starts_with(jpeg_begin)) image = decode_jpeg(bytes, options, name);
  else if (begin.starts_with(png_begin)) image = decode_png(bytes, options, name);
  else throw_no_image(begin, name);
  if (options.mode == ImageReadMode::Gray && image.values.size(2) == 3)
    image.values = gray_of_rgb(image.values);
  if (options.apply_exif_orientation) image.values = oriented(image.values, image.orientation);
  return image.values.permute({2, 0, 1});
}

}  // namespace ikebana::images::detail

namespace ikebana::images {

inline at::Tensor decode(std::span<const std::byte> bytes, const DecodeOptions& options) {
  return detail::decode_named(bytes, options, "the image in memory");
}

inline at::Tensor decode(std::string_view bytes, const DecodeOptions& options) {
  return decode(std::as_bytes(std::span(bytes)), options);
}

inline at::Tensor decode(const at::Tensor& bytes, const DecodeOptions& options) {
  if (!bytes.defined() || bytes.scalar_type() != at::kByte || bytes.dim() != 1 ||
      !bytes.device().is_cpu())
    throw BadValue(
        "decode: it takes the bytes of a file as a Byte tensor (n) on the CPU, and got " +
        (bytes.defined() ? std::string(c10::toString(bytes.scalar_type())) +
                               c10::str(bytes.sizes()) + " on " + bytes.device().str()
                         : "an undefined tensor") +
        ". Read the file's bytes into such a tensor, or call read(path).");
  const at::Tensor row = bytes.contiguous();
  return decode(std::as_bytes(std::span(static_cast<const std::uint8_t*>(row.const_data_ptr()),
                                        static_cast<std::size_t>(row.numel()))),
                options);
}

inline at::Tensor read(const std::filesystem::path& path, const DecodeOptions& options) {
  ikebana::detail::PosixInputFile file(path);
  const std::string name = "`" + path.string() + "`";
  const auto size = static_cast<std::size_t>(file.size());
  // A large file of another kind is refused before all of it is read.
  char begin[32];
  const std::size_t first = size < sizeof begin ? size : sizeof begin;
  file.read(0, begin, first);
  const std::string_view start(begin, first);
  if (!start.starts_with(detail::jpeg_begin) && !start.starts_with(detail::png_begin))
    detail::throw_no_image(start, name);
  const auto bytes = std::make_unique_for_overwrite<std::byte[]>(size);
  file.read(0, bytes.get(), size);
  return detail::decode_named({bytes.get(), size}, options, name);
}

}  // namespace ikebana::images
