// Images are decoded to the pixels that were encoded; what is damaged, cut off or of another format
// is an error that names it. oracle_decode.py compares with Pillow.
#include "encode.hpp"
#include "test.hpp"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace ikebana;
using namespace ikebana::images;

namespace test::images::decoding {

using Mode = ImageReadMode;

at::Tensor hwc(const at::Tensor& image) { return image.permute({1, 2, 0}); }

template <class E = BadFile>
std::string error_of(const std::string& bytes, const DecodeOptions& options = {}) {
  return message_of<E>([&] { decode(bytes, options); });
}

TEST_CASE("decode: a PNG has the pixels that were encoded, of every number of channels") {
  for (std::int64_t channels : {1, 2, 3, 4}) {
    const at::Tensor pixels = picture(13, 21, channels), file = picture(13, 21, channels);
    const at::Tensor image = decode(png(pixels), {.mode = Mode::Unchanged});
    CHECK(same_bits(hwc(image), pixels));
    const at::Tensor rgb = decode(png(pixels));
    CHECK(rgb.sizes() == c10::IntArrayRef{3, 13, 21});
    const at::Tensor color =
        channels < 3 ? pixels.narrow(2, 0, 1).expand({-1, -1, 3}) : pixels.narrow(2, 0, 3);
    CHECK(same_bits(hwc(rgb), color));
  }
}

TEST_CASE("decode: an image lies in memory as (H, W, C), and its dtype is Byte") {
  for (const std::string& file : {png(picture(9, 7, 3)), jpeg(picture(9, 7, 3))}) {
    const at::Tensor image = decode(file);
    CHECK(image.dtype() == at::kByte);
    CHECK(image.sizes() == c10::IntArrayRef{3, 9, 7});
    CHECK(hwc(image).is_contiguous());
    CHECK(image.unsqueeze(0).is_contiguous(at::MemoryFormat::ChannelsLast));
  }
}

TEST_CASE("decode: a string, a span and a tensor of the same bytes give the same image") {
  const std::string file = jpeg(picture(20, 30, 3));
  const at::Tensor expected = decode(file);
  CHECK(same_bits(expected, decode(std::as_bytes(std::span(file)))));
  const at::Tensor bytes = at::tensor(
      c10::ArrayRef<std::uint8_t>(reinterpret_cast<const std::uint8_t*>(file.data()), file.size()),
      at::kByte);
  CHECK(same_bits(expected, decode(bytes)));
  const at::Tensor every_second = at::stack({bytes, bytes}, 1).flatten().slice(0, 0, {}, 2);
  CHECK(same_bits(expected, decode(every_second)));
  CHECK(contains(message_of<BadValue>([&] { decode(bytes.to(at::kFloat)); }), "got Float["));
  CHECK(contains(message_of<BadValue>([&] { decode(bytes.unsqueeze(0)); }), "got Byte[1, "));
  CHECK(contains(message_of<BadValue>([] { decode(at::Tensor()); }), "an undefined tensor"));
}

TEST_CASE("decode: gray is the luma of RGB, and a grey image stays as it is") {
  const at::Tensor pixels = picture(11, 10, 3), gray = decode(png(pixels), {.mode = Mode::Gray});
  const at::Tensor x = pixels.to(at::kLong);
  const at::Tensor luma =
      (x.select(2, 0) * 19595 + x.select(2, 1) * 38470 + x.select(2, 2) * 7471 + 0x8000)
          .bitwise_right_shift(16);
  CHECK(same_bits(gray, luma.to(at::kByte).unsqueeze(0)));
  const at::Tensor grey = picture(11, 10, 1);
  for (Mode mode : {Mode::Gray, Mode::Unchanged})
    CHECK(same_bits(hwc(decode(png(grey), {.mode = mode})), grey));
}

TEST_CASE("decode: the orientation of EXIF turns and mirrors, unless it is turned off") {
  const at::Tensor pixels = picture(6, 9, 3);
  const at::Tensor x = pixels.permute({2, 0, 1}), y = x.transpose(1, 2);
  const at::Tensor expected[] = {x, x,         x.flip(2),      x.flip({1, 2}), x.flip(1),
                                 y, y.flip(2), y.flip({1, 2}), y.flip(1),      x};
  const at::Tensor lossy = decode(jpeg(pixels));
  for (int orientation = 0; orientation < 10; ++orientation)
    for (bool big_endian : {false, true}) {
      CAPTURE(orientation);
      const std::string tiff = exif(orientation, big_endian);
      const std::string file = png(pixels, {.exif = tiff}), photo = jpeg(pixels, {.exif = tiff});
      CHECK(same_bits(decode(file), expected[orientation]));
      CHECK(hwc(decode(file)).is_contiguous());
      CHECK(same_bits(decode(file, {.apply_exif_orientation = false}), x));
      CHECK(same_bits(decode(photo, {.apply_exif_orientation = false}), lossy));
      if (orientation == 6) CHECK(same_bits(decode(photo), lossy.transpose(1, 2).flip(2)));
    }
}

TEST_CASE("decode: damaged EXIF data are no orientation") {
  const at::Tensor pixels = picture(4, 6, 3), plain = decode(jpeg(pixels));
  const std::string tiff = exif(6);
  for (std::size_t n = 1; n < tiff.size(); ++n) {
    const bool has_value = n >= 20;  // the byte of the value is the 20th
    const at::Tensor image = decode(jpeg(pixels, {.exif = tiff.substr(0, n)}));
    CHECK(image.size(1) == (has_value ? 6 : 4));
  }
  for (std::size_t i = 0; i < tiff.size(); ++i)
    for (int value : {0, 1, 0xff}) {
      std::string changed = tiff;
      changed[i] = static_cast<char>(value);
      CHECK(decode(jpeg(pixels, {.exif = changed})).numel() == plain.numel());
    }
}

TEST_CASE("decode: a PNG of 16 bits keeps the upper 8 for RGB, and is UInt16 if unchanged") {
  const at::Tensor pixels = picture(5, 8, 6);  // two bytes, the upper one first, for each color
  const std::string file = png(5, 8,
                               {pixels.const_data_ptr<std::uint8_t>(),
                                pixels.const_data_ptr<std::uint8_t>() + pixels.numel()},
                               {.depth = 16});
  const at::Tensor upper = pixels.slice(2, 0, {}, 2), lower = pixels.slice(2, 1, {}, 2);
  CHECK(same_bits(hwc(decode(file)), upper));
  const at::Tensor unchanged = decode(file, {.mode = Mode::Unchanged});
  CHECK(unchanged.dtype() == at::kUInt16);
  CHECK(at::equal(hwc(unchanged).to(at::kInt), upper.to(at::kInt) * 256 + lower.to(at::kInt)));
}

TEST_CASE("decode: a palette gives its colors, or the indices if unchanged") {
  const std::vector<std::uint8_t> indices = {0, 1, 2, 3, 3, 2};
  PngForm form{.color = PNG_COLOR_TYPE_PALETTE, .colors = 4};
  const std::string file = png(2, 3, indices, form);
  const at::Tensor masks = decode(file, {.mode = Mode::Unchanged});
  CHECK(at::equal(masks, at::tensor({0, 1, 2, 3, 3, 2}, at::kByte).view({1, 2, 3})));
  CHECK(at::equal(decode(file).select(0, 2).flatten(), at::tensor({0, 1, 4, 9, 9, 4}, at::kByte)));
  form.transparent = true;
  CHECK(same_bits(decode(png(2, 3, indices, form)), decode(file)));
  form.colors = 3;
  const std::string error = error_of(png(2, 3, indices, form));
  CHECK(contains(error, "has a pixel of color 3, and its palette has 3 colors"));
}

TEST_CASE("decode: every beginning of a file that is cut off is an error with its byte") {
  const std::string files[] = {
      jpeg(picture(24, 30, 3)), jpeg(picture(24, 30, 3), {.progressive = true}),
      jpeg(picture(24, 30, 1), {.arithmetic = true}), png(picture(12, 14, 3)),
      png(picture(12, 14, 4), {.interlaced = true})};
  for (const std::string& file : files)
    for (std::size_t n = 0; n < file.size(); ++n) {
      CAPTURE(n);
      const std::string error = error_of(file.substr(0, n));
      CHECK(contains(error, "images: the image in memory "));
      if (n < 12) continue;
      CHECK(contains(error, "G that cannot be decoded: "));
      CHECK(contains(error, " of " + std::to_string(n) + "). Replace the file, or leave"));
    }
}

TEST_CASE("decode: a JPEG with a damaged scan is an error, and never pixels of grey") {
  const std::string file = jpeg(picture(64, 64, 3));
  const std::string middle = file.substr(0, file.size() / 2) + "\xff\xd9";
  CHECK(contains(error_of(middle), "Corrupt JPEG data: premature end of data segment (near byte "));
  std::string early = jpeg(picture(64, 64, 3), {.restart_rows = 1});
  const std::size_t at = early.find("\xff\xd1");
  early.replace(at, 2, "\xff\xd5");
  CHECK(contains(error_of(early), "Corrupt JPEG data: found marker 0xd5 instead of RST1"));
  std::string left_over = file;
  left_over.insert(file.size() - 2, "\1\2\3");  // before the end marker, as some cameras write
  CHECK(same_bits(decode(left_over), decode(file)));
  CHECK(same_bits(decode(file + "another picture"), decode(file)));
}

TEST_CASE("decode: what is no JPEG or PNG is refused by its name") {
  const std::pair<std::string, std::string> files[] = {
      {"GIF89a and more", "is a GIF, and JPEG and PNG are decoded"},
      {"BM123456789", "is a BMP"},
      {std::string("RIFF\1\2\3\4WEBPVP8 "), "is a WebP"},
      {std::string("II*\0\1\1", 6), "is a TIFF"},
      {std::string("MM\0*\1\1", 6), "is a TIFF"},
      {std::string("\0\0\0\x20"
                   "ftypavif",
                   12),
       "is an AVIF"},
      {std::string("\0\0\0\x20"
                   "ftypheic",
                   12),
       "is a HEIF"},
      {std::string("\0\0\0\xcjP  \r\n\x87\n", 12), "is a JPEG 2000"},
      {"version https://git-lfs.github.com/spec/v1", "is a pointer of Git LFS"},
      {"\x1f\x8b\x08 and more", "is compressed by gzip"},
      {"\n<!DOCTYPE html>", "is a page of HTML or XML"},
      {"", "is empty"},
      {"photos/cat.jpg",
       "begins with `photos/c`. Convert it; to decode the file of a path, call read"}};
  for (const auto& [bytes, part] : files) CHECK(contains(error_of(bytes), part));
  CHECK(contains(error_of(jpeg(picture(8, 8, 2))), "is a JPEG of 2 channels"));
  std::string twelve = jpeg(picture(8, 8, 1));
  twelve[twelve.find("\xff\xc0") + 4] = 12;
  CHECK(contains(error_of(twelve), "Unsupported JPEG data precision 12"));
}

TEST_CASE("decode: an image of more pixels than max_pixels is an error") {
  for (const std::string& file : {png(picture(10, 20, 3)), jpeg(picture(10, 20, 3))}) {
    CHECK(decode(file, {.max_pixels = 200}).numel() == 600);
    CHECK(contains(error_of(file, {.max_pixels = 199}),
                   "has 20 x 10 pixels, and max_pixels allows 1 to 199. If"));
    CHECK(contains(error_of<BadValue>(file, {.max_pixels = 0}), "max_pixels is 0"));
  }
}

TEST_CASE("decode: memory that is missing for the pixels is an exception") {
  std::string file = png(picture(1, 1, 3));
  file.replace(16, 8, std::string("\0\xf\xff\xff\x7f\xff\xff\xff", 8));
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(file.data()) + 12, 17);
  for (std::size_t i = 0; i < 4; ++i) file[29 + i] = static_cast<char>(sum >> (24 - 8 * i) & 0xff);
  CHECK(contains(error_of(file), "has 1048575 x 2147483647 pixels"));
  CHECK_THROWS_AS(decode(file, {.max_pixels = INT64_MAX}), c10::Error);
}

TEST_CASE("decode: read names the path") {
  const auto folder = std::filesystem::temp_directory_path() / "ikebana_decode";
  std::filesystem::create_directories(folder);
  auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder / name, std::ios::binary)
        .write(bytes.data(), std::streamsize(bytes.size()));
    return folder / name;
  };
  const std::string file = jpeg(picture(9, 9, 3));
  CHECK(same_bits(read(write("whole.png", file)), decode(file)));  // told by the first bytes
  const auto half = write("half.jpg", file.substr(0, 600));
  CHECK(contains(message_of<BadFile>([&] { read(half); }),
                 "images: `" + half.string() + "` is a JPEG"));
  const auto text = write("text.jpg", "no image");
  CHECK(contains(message_of<BadFile>([&] { read(text); }), text.string()));
  CHECK(
      contains(message_of<BadFile>([&] { read(write("empty.jpg", "")); }), "empty.jpg` is empty"));
  CHECK(contains(message_of<FileFailed>([&] { read(folder / "none.jpg"); }), "none.jpg"));
  CHECK(contains(message_of<FileFailed>([&] { read(folder); }), "It is a folder"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("decode: threads decode at once") {
  std::vector<std::string> files;
  for (std::int64_t i = 0; i < 8; ++i)
    files.push_back(i % 2 ? png(picture(20 + i, 30, 3))
                          : jpeg(picture(20 + i, 30, 3), {.progressive = i % 4 == 0}));
  std::vector<at::Tensor> expected;
  for (const std::string& file : files) expected.push_back(decode(file));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 64; ++i) {
        const std::size_t n = (i + t) % files.size();
        if (!same_bits(decode(files[n]), expected[n])) ++wrong;
        if (error_of(files[n].substr(0, files[n].size() / 2)).empty()) ++wrong;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

}  // namespace test::images::decoding
