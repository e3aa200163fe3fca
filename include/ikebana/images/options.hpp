#pragma once
// Defines the options of decoding.
#include <cstdint>

namespace ikebana::images {

/// The channels of a decoded image. torchvision's ImageReadMode has the same names.
enum class ImageReadMode {
  Unchanged,  ///< as the file has them: grey, grey and alpha, RGB, RGBA, CMYK, a palette's indices
  Gray,       ///< one channel, the luma of RGB by ITU-R 601-2, as Pillow's `convert("L")`
  RGB,        ///< three channels, as Pillow's `convert("RGB")`; alpha is dropped
};

/// Options of `decode` and `read`.
struct DecodeOptions {
  /// The channels. With `Unchanged` a 16-bit PNG is UInt16, and a palette PNG has one channel of
  /// indices, as the masks of Pascal VOC have.
  ImageReadMode mode = ImageReadMode::RGB;
  /// Turns and mirrors the image as its EXIF orientation says, as Pillow's `exif_transpose`.
  /// torchvision and Pillow do not by default, so photographs of telephones lie on their side
  /// there.
  bool apply_exif_orientation = true;
  /// The most pixels that an image may have, so that a small file cannot take all memory. The
  /// default is Pillow's limit, 179 million; RGB takes 3 bytes per pixel.
  std::int64_t max_pixels = 178956970;
};

}  // namespace ikebana::images
