#pragma once
// Named tensors from a file of which nothing is believed.
#include <ikebana/state/tensor_file.hpp>

namespace ikebana {

/// A file's tensors, on the CPU, and what it says of itself.
struct TensorFile {
  FileHeader header;
  StateDict tensors;
};

namespace detail {

/// Reads a file of which nothing is believed: its header, and its tensors one by one.
class TensorFileReader {
 public:
  TensorFileReader(Files& files, const Files::Path& path) : path_(path), file_(files.open(path)) {}

  /// With checksums required, a file that has not all of them is damaged; otherwise those that are
  /// there are compared.
  FileHeader header(bool checksums = false) {
    FileHeader header = parsed();
    const bool some =
        std::any_of(header.metadata.begin(), header.metadata.end(),
                    [](const auto& item) { return item.first.starts_with("ikebana"); });
    if ((checksums || some) && !header.metadata.count(crc_key))
      bad("`__metadata__`: the header has no checksum, so this is no whole saved state", 8);
    return header;
  }
  at::Tensor tensor(const FileHeader& header, const std::string& name) {
    const FileTensor& t = header.tensors.at(name);
    const std::uint64_t begin = header.data + t.begin;
    std::vector<std::int64_t> sizes = t.shape;
    at::ScalarType type = type_of_name(t.dtype);
    if (auto found = header.metadata.find(std::string(dtype_prefix) + name);
        found != header.metadata.end()) {
      type = type_of_metadata(found->second);
      if (type == at::ScalarType::Undefined || c10::isQIntType(type) || t.dtype != "U8" ||
          sizes.empty() || sizes.back() != static_cast<std::int64_t>(c10::elementSize(type)))
        bad("`__metadata__." + Json::escaped(found->first) + "` does not fit its tensor", 8);
      sizes.pop_back();
    }
    at::Tensor bytes = made(sizes, type, name);
    const std::uint32_t crc = read(name, bytes, begin);
    auto wanted = header.metadata.find(std::string(crc_prefix) + name);
    const bool has_one = wanted != header.metadata.end();
    if (has_one ? wanted->second != hex8(crc) : header.metadata.count(crc_key) != 0)
      bad("`" + Json::escaped(name) + "`: " +
              (has_one ? "the checksum of its bytes is another: they were changed "
                         "since they were written"
                       : "has no checksum"),
          begin);
    return bytes;
  }
  /// Calls `f(name, tensor)` for each tensor.
  template <class F>
  FileHeader each(bool checksums, F&& f) {
    FileHeader all = header(checksums);
    for (const auto& [name, t] : all.tensors) f(name, tensor(all, name));
    return all;
  }
  TensorFile all(bool checksums) {
    StateDict tensors;
    auto keep = [&](const std::string& name, at::Tensor t) { tensors[name] = std::move(t); };
    FileHeader header = each(checksums, keep);
    return {std::move(header), std::move(tensors)};
  }

 private:
  FileHeader parsed() {
    const std::uint64_t size = file_->size();
    std::uint64_t length = 0;
    if (size < 8) bad("the header: the file ends within its length", size);
    file_->read(0, &length, 8);
    if (length > size - 8 || length > longest_header)
      bad("the header: its length is " + std::to_string(length) + ", more than the file has", 0);
    std::string text(length, '\0');
    file_->read(8, text.data(), length);
    try {
      return HeaderReader::read(text, size);
    } catch (const Json::Bad& wrong) {
      bad(wrong.what, wrong.offset);
    }
  }
  at::Tensor made(at::IntArrayRef sizes, at::ScalarType type, const std::string& name) const {
    try {
      return at::empty(sizes, type);
    } catch (const c10::Error& error) {
      throw OutOfMemory("load: `" + path_.string() + "`, `" + Json::escaped(name) +
                        "`: " + error.what_without_backtrace() + ". Free memory.");
    }
  }
  std::uint32_t read(const std::string& name, const at::Tensor& t, std::uint64_t begin) {
    auto to = static_cast<unsigned char*>(t.mutable_data_ptr());
    const std::size_t size = t.nbytes();
    std::uint32_t crc = 0;
    for (std::size_t at = 0; at < size; at += chunk_size) {
      const std::size_t n = std::min(chunk_size, size - at);
      file_->read(begin + at, to + at, n);
      crc = crc32(crc, to + at, n);
      if (t.scalar_type() != at::kBool) continue;
      const auto* wrong = std::find_if(to + at, to + at + n, [](auto c) { return c > 1; });
      if (wrong != to + at + n)
        bad("`" + Json::escaped(name) + "`: a byte of BOOL is neither 0 nor 1",
            begin + static_cast<std::uint64_t>(wrong - to));
    }
    return crc;
  }
  [[noreturn]] void bad(const std::string& what, std::uint64_t offset) const {
    throw BadFile("load: `" + path_.string() + "` is damaged, or no file of tensors, at byte " +
                  std::to_string(offset) + ": " + what +
                  ". Take another copy or an earlier state.");
  }

  Files::Path path_;
  std::unique_ptr<InputFile> file_;
};

}  // namespace detail

using detail::TensorFileReader;

}  // namespace ikebana
