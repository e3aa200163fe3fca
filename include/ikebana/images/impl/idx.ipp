#pragma once
#include <bit>
#include <cstring>
#include <ikebana/images/idx.hpp>
#include <ikebana/images/inflate.hpp>
#include <optional>

namespace ikebana::images::detail {

/// The header of an IDX file.
struct IdxHeader {
  c10::ScalarType dtype;
  std::vector<std::int64_t> sizes;
  std::size_t bytes;       ///< the size of the header
  std::size_t data_bytes;  ///< after it
};

[[noreturn]] inline void throw_idx(const std::filesystem::path& path, const std::string& what) {
  throw BadFile("read_idx: `" + path.string() + "` " + what);
}

inline std::optional<c10::ScalarType> idx_dtype(unsigned char code) {
  switch (code) {
    case 0x08:
      return at::kByte;
    case 0x09:
      return at::kChar;
    case 0x0B:
      return at::kShort;
    case 0x0C:
      return at::kInt;
    case 0x0D:
      return at::kFloat;
    case 0x0E:
      return at::kDouble;
    default:
      return {};
  }
}

inline IdxHeader idx_header(std::string_view bytes, const std::filesystem::path& path) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  if (bytes.size() < 4 || byte(0) != 0 || byte(1) != 0)
    throw_idx(path, "is no IDX file: it does not begin with two bytes of 0. Check the path.");
  const auto dtype = idx_dtype(byte(2));
  if (!dtype)
    throw_idx(path, "is damaged: byte 2 is " + std::to_string(byte(2)) +
                        ", which is no type of IDX (8, 9, 11, 12, 13 or 14). Replace the file.");
  IdxHeader header{*dtype, {}, 4 + std::size_t{4} * byte(3), c10::elementSize(*dtype)};
  if (bytes.size() < header.bytes)
    throw_idx(path, "ends in its header of " + std::to_string(header.bytes) +
                        " bytes, after byte " + std::to_string(bytes.size()) +
                        ". Replace the file.");
  std::size_t with_ones = header.data_bytes;  // a size of 0 must not hide the others
  for (std::size_t at = 4; at < header.bytes; at += 4) {
    std::uint32_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size = size << 8 | byte(at + i);
    header.sizes.push_back(size);
    header.data_bytes *= size;
    if (__builtin_mul_overflow(with_ones, std::size_t{size > 0 ? size : 1}, &with_ones) ||
        with_ones > std::size_t{1} << 48)
      throw_idx(path, "is damaged: the sizes in its header, " +
                          c10::str(c10::IntArrayRef(header.sizes)) +
                          ", are more than memory can hold. Replace the file.");
  }
  return header;
}

/// Copies big-endian elements.
inline void copy_swapped(const char* from, char* to, std::size_t bytes, std::size_t element) {
  if (element == 1 || std::endian::native == std::endian::big) {
    std::memcpy(to, from, bytes);
    return;
  }
  for (std::size_t i = 0; i < bytes; i += element)
    for (std::size_t b = 0; b < element; ++b) to[i + b] = from[i + element - 1 - b];
}

}  // namespace ikebana::images::detail

namespace ikebana::images {

inline at::Tensor read_idx(const std::filesystem::path& path) {
  std::string bytes = detail::file_bytes(path);
  if (detail::is_gzipped(bytes)) {
    constexpr std::size_t longest_header = 4 + 4 * 255;
    const std::string begin = detail::inflated(bytes, longest_header, path);
    const detail::IdxHeader header = detail::idx_header(begin, path);
    // One more byte than it should have shows a file that is too long.
    bytes = detail::inflated(bytes, header.bytes + header.data_bytes + 1, path);
  }
  const detail::IdxHeader header = detail::idx_header(bytes, path);
  const std::size_t rest = bytes.size() - header.bytes;
  if (rest != header.data_bytes)
    detail::throw_idx(path,
                      "does not have the length that its header says: " +
                          std::string(c10::toString(header.dtype)) +
                          c10::str(c10::IntArrayRef(header.sizes)) + " has " +
                          std::to_string(header.data_bytes) + " bytes, and there are " +
                          (rest > header.data_bytes ? "more" : "only " + std::to_string(rest)) +
                          ". Replace the file.");
  at::Tensor values = at::empty(header.sizes, header.dtype);
  if (header.data_bytes > 0)
    detail::copy_swapped(bytes.data() + header.bytes, static_cast<char*>(values.mutable_data_ptr()),
                         header.data_bytes, c10::elementSize(header.dtype));
  return values;
}

}  // namespace ikebana::images

namespace ikebana::images::detail {

/// Finds a file of MNIST in the folders and under the names that are usual.
inline std::filesystem::path find_mnist(const std::filesystem::path& folder,
                                        const std::string& name, const std::string& file,
                                        const std::string& kind) {
  for (const auto& place : {folder, folder / "raw", folder / name / "raw"})
    for (const char* separator : {"-", "."})
      for (const char* ending : {"", ".gz"}) {
        std::filesystem::path path = place / (file + separator + kind + ending);
        std::error_code code;
        if (std::filesystem::is_regular_file(path, code)) return path;
      }
  throw BadFile(name + ": there is no `" + file + "-" + kind + "`, also with .gz, in `" +
                folder.string() + "`, in `raw` or in `" + name +
                "/raw` in it. Name the folder of the four files.");
}

inline std::vector<std::string> mnist_classes(const std::string& name) {
  if (name == "FashionMNIST")
    return {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
            "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  return {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
}

inline ImageArrays read_mnist(const std::filesystem::path& folder, const std::string& name,
                              bool train) {
  const std::string part = train ? "train" : "t10k";
  const auto images_path = find_mnist(folder, name, part + "-images", "idx3-ubyte");
  const auto labels_path = find_mnist(folder, name, part + "-labels", "idx1-ubyte");
  const at::Tensor images = read_idx(images_path), labels = read_idx(labels_path);
  if (images.dim() != 3 || images.scalar_type() != at::kByte)
    throw BadFile(name + ": `" + images_path.string() + "` holds " +
                  c10::toString(images.scalar_type()) + c10::str(images.sizes()) +
                  ", and images are Byte (N, height, width). Check the file.");
  if (labels.dim() != 1 || labels.scalar_type() != at::kByte || labels.size(0) != images.size(0))
    throw BadFile(name + ": `" + labels_path.string() + "` holds " +
                  c10::toString(labels.scalar_type()) + c10::str(labels.sizes()) +
                  ", and there are " + std::to_string(images.size(0)) +
                  " images. Check that both files are of one set.");
  const std::vector<std::string> classes = mnist_classes(name);
  if (labels.numel() > 0 && labels.max().item<std::int64_t>() >= std::int64_t(classes.size()))
    throw BadFile(name + ": `" + labels_path.string() + "` has the label " +
                  std::to_string(labels.max().item<std::int64_t>()) + ", and there are " +
                  std::to_string(classes.size()) + " classes. Read such files by read_idx.");
  return {images.unsqueeze(1), labels.to(at::kLong), classes};
}

}  // namespace ikebana::images::detail
