// Damaged images give an image or an error, never a crash.
#include "encode.hpp"
#include "mutate.hpp"
#include "test.hpp"

using namespace ikebana;
using namespace ikebana::images;

namespace test::images::fuzz {

/// Sets the checksums of the chunks of a PNG, so that damage reaches what they protect.
std::string with_checksums(std::string file) {
  std::size_t at = 8;
  while (at + 12 <= file.size()) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i)
      length = length << 8 | static_cast<std::uint8_t>(file[at + i]);
    if (length > file.size() - at - 12) break;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(file.data()) + at + 4,
                           static_cast<uInt>(length + 4));
    for (std::size_t i = 0; i < 4; ++i)
      file[at + 8 + length + i] = static_cast<char>(sum >> (24 - 8 * i) & 0xff);
    at += length + 12;
  }
  return file;
}

std::vector<std::string> originals() {
  const std::vector<std::uint8_t> indices(40 * 20, 3);
  return {
      jpeg(picture(40, 33, 3), {.exif = exif(6)}),
      jpeg(picture(40, 33, 3), {.progressive = true}),
      jpeg(picture(40, 33, 4), {.h = 1, .v = 1, .space = JCS_CMYK, .restart_rows = 1}),
      jpeg(picture(40, 33, 1), {.arithmetic = true}),
      png(picture(20, 15, 3), {.exif = exif(8, false)}),
      png(picture(20, 15, 4), {.interlaced = true}),
      png(20, 40, indices, {.color = PNG_COLOR_TYPE_PALETTE, .colors = 16, .transparent = true}),
      png(20, 20, indices, {.depth = 16, .color = PNG_COLOR_TYPE_GRAY, .interlaced = true})};
}

TEST_CASE("fuzz: a damaged image gives an image or BadFile") {
  const std::uint64_t count = is_thorough() ? 20000 : 100;
  std::size_t whole = 0, bad = 0;
  for (const std::string& original : originals())
    for (std::uint64_t seed = 0; seed < count; ++seed) {
      std::string file = mutated(original, seed);
      if (seed % 2 == 0 && file.starts_with("\x89PNG")) file = with_checksums(file);
      for (auto mode : {ImageReadMode::RGB, ImageReadMode::Gray, ImageReadMode::Unchanged}) {
        try {
          const at::Tensor image = decode(file, {.mode = mode, .max_pixels = 1 << 20});
          whole += image.numel() > 0;
        } catch (const BadFile& error) {
          bad += contains(error.what(), "images: the image in memory ");
        }
      }
    }
  CHECK(whole + bad == originals().size() * count * 3);
  CHECK(whole > count);
  CHECK(bad > count);
}

}  // namespace test::images::fuzz
