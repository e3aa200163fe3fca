#pragma once
// Reads text to train on: the bytes of a file, or of all files of a folder.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "models/gpt.hpp"

/// The bytes of a text, one dimension; the last tenth is for validation.
struct Text {
  std::string name;
  at::Tensor train, validation;
  std::int64_t size() const { return train.numel() + validation.numel(); }
};

/// The largest number of bytes that are read of a file or folder.
inline constexpr std::size_t max_text_bytes = std::size_t{16} << 20;

inline std::string read_file(const std::filesystem::path& path,
                             std::size_t max_bytes = max_text_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error("text: cannot read " + path.string() + ". Check its permissions.");
  std::string bytes(std::min<std::uintmax_t>(std::filesystem::file_size(path), max_bytes), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

/// Returns the contents of all regular files below `folder`, in order of their names, without
/// hidden ones.
inline std::string read_folder(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  auto options = fs::directory_options::skip_permission_denied;
  for (auto at = fs::recursive_directory_iterator(folder, options); at != fs::end(at); ++at) {
    bool hidden = at->path().filename().string().starts_with('.');
    if (hidden && at->is_directory()) at.disable_recursion_pending();
    if (!hidden && at->is_regular_file()) files.push_back(at->path());
  }
  std::sort(files.begin(), files.end());
  std::string bytes;
  for (const auto& file : files) {
    if (bytes.size() >= max_text_bytes) break;
    bytes += read_file(file, max_text_bytes - bytes.size());
  }
  return bytes;
}

/// Reads a file or a folder. Throws if it does not exist, or has fewer than `min_bytes` bytes.
inline Text read_text(const std::filesystem::path& path, std::int64_t min_bytes) {
  namespace fs = std::filesystem;
  if (!fs::exists(path))
    throw std::runtime_error("text: there is no " + path.string() +
                             ". Give a file or a folder of text.");
  bool folder = fs::is_directory(path);
  if (!folder && !fs::is_regular_file(path))
    throw std::runtime_error("text: " + path.string() + " is neither a file nor a folder.");
  std::string bytes = folder ? read_folder(path) : read_file(path);
  auto size = static_cast<std::int64_t>(bytes.size());
  if (size < min_bytes)
    throw std::runtime_error("text: " + path.string() + " holds " + std::to_string(size) +
                             " bytes; at least " + std::to_string(min_bytes) +
                             " are needed. Give a longer text.");
  at::Tensor all = torch::from_blob(bytes.data(), {size}, at::kByte).clone();
  return {path.string(), all.slice(0, 0, size - size / 10), all.slice(0, size - size / 10)};
}

/// Returns the folder of LibTorch's own C++ headers, a text that every machine that builds this
/// has.
inline std::filesystem::path libtorch_headers() {
  std::stringstream folders(IKEBANA_INCLUDE_PATH);
  for (std::string folder; std::getline(folders, folder, ':');) {
    auto headers = std::filesystem::path(folder) / "torch/csrc/api/include/torch";
    if (std::filesystem::exists(headers)) return headers;
  }
  throw std::runtime_error("text: LibTorch's headers are no longer in " IKEBANA_INCLUDE_PATH
                           ". Give a file or a folder of text.");
}

/// Text for a terminal: bytes that are not printable, valid UTF-8 become question marks.
inline std::string printable(const std::string& bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size();) {
    auto first = static_cast<unsigned char>(bytes[i]);
    std::size_t length = first < 0x80    ? 1
                         : first >= 0xf0 ? 4
                         : first >= 0xe0 ? 3
                         : first >= 0xc2 ? 2
                                         : 0;
    bool good = length > 0 && i + length <= bytes.size() && first < 0xf5 &&
                (first >= 0x20 || first == '\n' || first == '\t') && first != 0x7f;
    for (std::size_t j = 1; good && j < length; ++j)
      good = (static_cast<unsigned char>(bytes[i + j]) & 0xc0) == 0x80;
    text += good ? bytes.substr(i, length) : "?";
    i += good ? length : 1;
  }
  return text;
}

/// Makes batches of random windows of a text; the same seed makes the same batches.
class Windows {
 public:
  Windows(at::Tensor bytes, std::int64_t rows, std::int64_t length, std::uint64_t seed)
      : bytes_(std::move(bytes)),
        rows_(rows),
        length_(length),
        random_(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

  Tokens next() {
    at::Tensor first = at::randint(bytes_.numel() - length_, {rows_, 1}, random_, at::kLong);
    at::Tensor window = bytes_.take(first + at::arange(length_ + 1)).to(at::kLong);
    return {window.slice(1, 0, length_), window.slice(1, 1)};
  }
  std::vector<Tokens> next(std::size_t batches) {
    std::vector<Tokens> all;
    while (all.size() < batches) all.push_back(next());
    return all;
  }

 private:
  at::Tensor bytes_;
  std::int64_t rows_, length_;
  at::Generator random_;
};
