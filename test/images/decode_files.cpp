// For oracle_decode.py. `decode_files make <folder>` writes JPEGs in forms that Pillow does not
// write. `decode_files <file>...` decodes each file: it writes `<file>.<mode>`, which is dtype and
// sizes as a line of text, then the values as they lie in memory, (H, W, C); or an error's text.
#include "encode.hpp"

#include <fstream>

using namespace ikebana;

namespace {

void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

void make(const std::string& folder) {
  using test::images::jpeg;
  const at::Tensor rgb = test::images::picture(61, 83, 3), cmyk = test::images::picture(45, 50, 4);
  for (auto [h, v] : {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}, {1, 4}, {3, 1}})
    for (bool progressive : {false, true}) {
      const std::string name = folder + "/sampled" + std::to_string(h) + "x" + std::to_string(v) +
                               (progressive ? "p" : "");
      write(name + ".jpg", jpeg(rgb, {.h = h, .v = v, .progressive = progressive}));
    }
  write(folder + "/arithmetic.jpg", jpeg(rgb, {.arithmetic = true}));
  write(folder + "/arithmetic_progressive.jpg",
        jpeg(rgb, {.progressive = true, .arithmetic = true}));
  write(folder + "/restarts.jpg", jpeg(rgb, {.restart_rows = 1}));
  write(folder + "/stored_rgb.jpg", jpeg(rgb, {.h = 1, .v = 1, .space = JCS_RGB}));
  write(folder + "/cmyk.jpg", jpeg(cmyk, {.h = 1, .v = 1, .space = JCS_CMYK}));
  write(folder + "/ycck.jpg", jpeg(cmyk, {.space = JCS_YCCK}));
}

void decode(const std::string& path, const std::string& suffix, images::ImageReadMode mode) {
  std::ofstream out(path + "." + suffix, std::ios::binary);
  try {
    const at::Tensor image = images::read(path, {.mode = mode}).permute({1, 2, 0});
    TORCH_CHECK(image.is_contiguous());
    out << (image.scalar_type() == at::kByte ? "uint8" : "uint16");
    for (const std::int64_t n : image.sizes()) out << ' ' << n;
    out << '\n';
    out.write(static_cast<const char*>(image.const_data_ptr()), std::streamsize(image.nbytes()));
  } catch (const BadFile& error) {
    out << "BadFile " << error.what() << '\n';
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 3 && std::string(arguments[1]) == "make") return make(arguments[2]), 0;
  for (int i = 1; i < count; ++i) {
    decode(arguments[i], "rgb", images::ImageReadMode::RGB);
    decode(arguments[i], "gray", images::ImageReadMode::Gray);
    decode(arguments[i], "unchanged", images::ImageReadMode::Unchanged);
  }
  return 0;
}
