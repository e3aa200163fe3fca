#pragma once
// Text to learn from: the bytes of a file, or of all files of a folder.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "gpt.hpp"

/// Bytes with a name; the last tenth is kept for validation.
struct Text {
  std::string name;
  at::Tensor train, validation;  // one dimension, bytes
  std::int64_t size() const { return train.numel() + validation.numel(); }
};

/// What is read of a folder or file at most; more than a demonstration can learn.
inline constexpr std::size_t most_text = std::size_t{16} << 20;

inline std::string read_file(const std::filesystem::path& path, std::size_t most = most_text) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error("text: cannot read " + path.string() + ". Check its permissions.");
  std::string bytes(std::min<std::uintmax_t>(std::filesystem::file_size(path), most), '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()));
  return bytes;
}

/// All regular files below `folder`, by name, one after the other; hidden ones are left out.
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
    if (bytes.size() >= most_text) break;
    bytes += read_file(file, most_text - bytes.size());
  }
  return bytes;
}

/// Reads a file or a folder. Throws where there is none, or fewer than `least` bytes in it.
inline Text read_text(const std::filesystem::path& path, std::int64_t least) {
  namespace fs = std::filesystem;
  if (!fs::exists(path))
    throw std::runtime_error("text: there is no " + path.string() +
                             ". Give a file or a folder of text.");
  bool folder = fs::is_directory(path);
  if (!folder && !fs::is_regular_file(path))
    throw std::runtime_error("text: " + path.string() + " is neither a file nor a folder.");
  std::string bytes = folder ? read_folder(path) : read_file(path);
  auto size = static_cast<std::int64_t>(bytes.size());
  if (size < least)
    throw std::runtime_error("text: " + path.string() + " holds " + std::to_string(size) +
                             " bytes; at least " + std::to_string(least) +
                             " are needed. Give a longer text.");
  at::Tensor all = torch::from_blob(bytes.data(), {size}, at::kByte).clone();
  return {path.string(), all.slice(0, 0, size - size / 10), all.slice(0, size - size / 10)};
}

/// LibTorch's own C++ headers, which every machine that builds this has.
inline std::filesystem::path libtorch_headers() {
  std::stringstream folders(IKEBANA_INCLUDE_PATH);
  for (std::string folder; std::getline(folders, folder, ':');) {
    auto headers = std::filesystem::path(folder) / "torch/csrc/api/include/torch";
    if (std::filesystem::exists(headers)) return headers;
  }
  throw std::runtime_error(
      "text: LibTorch's headers are gone from where they were. Give a file or a folder of text.");
}

/// Text for a terminal: what is neither printable nor valid UTF-8 becomes a question mark.
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

/// Batches of random windows of a text, the same ones for the same seed.
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
