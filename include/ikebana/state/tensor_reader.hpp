#pragma once
// Reads named tensors from untrusted files; every field is checked.
#include <ikebana/state/tensor_file.hpp>

namespace ikebana {

/// The header of a file and its tensors, on the CPU.
struct TensorFile {
  FileHeader header;
  StateDict tensors;
};

namespace detail {

/// Reads the header of an untrusted file, and its tensors one by one; every field is checked.
/// Throws BadFile, which names the field and the byte, FileFailed and OutOfMemory.
class TensorFileReader {
 public:
  TensorFileReader(Files& files, const Files::Path& path) : path_(path), file_(files.open(path)) {}

  /// With `require_checksums`, a file that lacks one is damaged. Without, the checksums that it has
  /// are compared.
  FileHeader header(bool require_checksums = false) {
    FileHeader header = read_header();
    const bool is_saved_by_ikebana =
        std::any_of(header.metadata.begin(), header.metadata.end(),
                    [](const auto& item) { return item.first.starts_with("ikebana"); });
    if ((require_checksums || is_saved_by_ikebana) && !header.metadata.count(crc_key))
      damaged("`__metadata__`: the header has no checksum, so this is not an intact saved state",
              8);
    return header;
  }
  /// Reads one tensor of the file and compares its checksum if there is one.
  at::Tensor tensor(const FileHeader& header, const std::string& name) {
    const FileTensor& entry = header.tensors.at(name);
    const std::uint64_t begin = header.data + entry.begin;
    std::vector<std::int64_t> sizes = entry.shape;
    at::ScalarType type = type_of_name(entry.dtype);
    if (auto found = header.metadata.find(std::string(dtype_prefix) + name);
        found != header.metadata.end()) {
      type = type_of_metadata(found->second);
      if (type == at::ScalarType::Undefined || c10::isQIntType(type) || entry.dtype != "U8" ||
          sizes.empty() || sizes.back() != static_cast<std::int64_t>(c10::elementSize(type)))
        damaged("`__metadata__." + Json::excerpt(found->first) + "` does not fit its tensor", 8);
      sizes.pop_back();
    }
    at::Tensor t = allocate(sizes, type, name);
    const std::uint32_t crc = read(name, t, begin);
    auto expected = header.metadata.find(std::string(crc_prefix) + name);
    const bool has_checksum = expected != header.metadata.end();
    if (has_checksum ? expected->second != hex8(crc) : header.metadata.count(crc_key) != 0)
      damaged("`" + Json::excerpt(name) + "`: " +
                  (has_checksum ? "the checksum of its bytes does not match: they were changed "
                                  "since they were written"
                                : "has no checksum"),
              begin);
    return t;
  }
  /// Calls `f(name, tensor)` for each tensor.
  template <class F>
  FileHeader each(bool require_checksums, F&& f) {
    FileHeader read = header(require_checksums);
    for (const auto& [name, t] : read.tensors) f(name, tensor(read, name));
    return read;
  }
  TensorFile all(bool require_checksums) {
    StateDict tensors;
    auto keep = [&](const std::string& name, at::Tensor t) { tensors[name] = std::move(t); };
    FileHeader header = each(require_checksums, keep);
    return {std::move(header), std::move(tensors)};
  }

 private:
  FileHeader read_header() {
    const std::uint64_t size = file_->size();
    std::uint64_t length = 0;
    if (size < 8) damaged("the header: the file ends within its length", size);
    file_->read(0, &length, 8);
    if (length > size - 8 || length > max_header_bytes)
      damaged("the header: its length is " + std::to_string(length) +
                  ", more than the file or a reader's limit allows",
              0);
    std::string text(length, '\0');
    file_->read(8, text.data(), length);
    try {
      return HeaderReader::read(text, size);
    } catch (const Json::ParseError& error) {
      damaged(error.what, error.offset);
    }
  }
  at::Tensor allocate(at::IntArrayRef sizes, at::ScalarType type, const std::string& name) const {
    try {
      return at::empty(sizes, type);
    } catch (const c10::Error& error) {
      throw OutOfMemory("load: `" + path_.string() + "`, `" + Json::excerpt(name) +
                        "`: " + error.what_without_backtrace() + ". Free memory on the machine.");
    }
  }
  /// Reads the bytes of `t` and returns their CRC-32.
  std::uint32_t read(const std::string& name, const at::Tensor& t, std::uint64_t begin) {
    auto to = static_cast<unsigned char*>(t.mutable_data_ptr());
    const std::size_t size = t.nbytes();
    std::uint32_t crc = 0;
    for (std::size_t at = 0; at < size; at += chunk_size) {
      const std::size_t n = std::min(chunk_size, size - at);
      file_->read(begin + at, to + at, n);
      crc = crc32(crc, to + at, n);
      if (t.scalar_type() != at::kBool) continue;
      const auto* invalid = std::find_if(to + at, to + at + n, [](auto c) { return c > 1; });
      if (invalid != to + at + n)
        damaged("`" + Json::excerpt(name) + "`: a byte of BOOL is neither 0 nor 1",
                begin + static_cast<std::uint64_t>(invalid - to));
    }
    return crc;
  }
  [[noreturn]] void damaged(const std::string& what, std::uint64_t offset) const {
    throw BadFile("load: `" + path_.string() + "` is damaged or not a safetensors file, at byte " +
                  std::to_string(offset) + ": " + what + ". Use another copy or an earlier state.");
  }

  Files::Path path_;
  std::unique_ptr<InputFile> file_;
};

}  // namespace detail

using detail::TensorFileReader;

}  // namespace ikebana
