#pragma once
// Reads named tensors from untrusted files; every field is checked.
#include <cstring>
#include <ikebana/detail/slice.hpp>
#include <ikebana/state/files/crc32.hpp>
#include <ikebana/state/files/json.hpp>
#include <ikebana/state/files/safetensors_format.hpp>
#include <ikebana/state/files/safetensors_writer.hpp>

namespace ikebana {

namespace detail {

/// Reads the header of an untrusted file, and its tensors one by one; every field is checked.
/// Throws BadFile, which names the field and the byte, FileFailed and OutOfMemory.
class TensorFileReader {
 public:
  TensorFileReader(Files& files, const Files::Path& path) : path_(path), file_(files.open(path)) {}

  /// Reads the header. With `require_checksums`, a file without checksums counts as damaged.
  /// Without it, the checksums that the file has are compared.
  FileHeader header(bool require_checksums = false);
  /// The dtype and shape of one tensor, which may be stored as bytes.
  struct Layout {
    at::ScalarType type;
    std::vector<std::int64_t> sizes;
  };
  static Layout layout(const Files::Path& path, const FileHeader& header, const std::string& name);
  /// Reads one tensor of the file and compares its checksum if the file has one.
  at::Tensor tensor(const FileHeader& header, const std::string& name);
  /// Reads `rows` of a tensor to `to`, which is contiguous. All bytes of the tensor pass through
  /// one chunk of memory, because its checksum covers all of them.
  void rows(const FileHeader& header, const std::string& name, RowRange rows, const at::Tensor& to);
  /// Calls `f(name, tensor)` for each tensor.
  template <class F>
  FileHeader each(bool require_checksums, F&& f) {
    FileHeader read = header(require_checksums);
    for (const auto& [name, t] : read.tensors) f(name, tensor(read, name));
    return read;
  }
  TensorFile all(bool require_checksums);

  static at::Tensor allocate(const Files::Path& path, at::IntArrayRef sizes, at::ScalarType type,
                             const std::string& name);

 private:
  FileHeader read_header();
  static void nothing(std::size_t, std::size_t) {}
  /// Reads the bytes of a tensor, chunk by chunk: reads `n` bytes, from byte `at` on, to `place(at,
  /// n)`, and then calls `take(at, n)`. Compares the checksum.
  template <class Place, class Take = decltype(nothing)>
  void read(const FileHeader& header, const std::string& name, std::size_t size, Place&& place,
            Take&& take = nothing) {
    const FileTensor& entry = header.tensors.at(name);
    const std::uint64_t begin = header.data + entry.begin;
    const bool is_bool = layout(path_, header, name).type == at::kBool;
    std::uint32_t crc = 0;
    for (std::size_t at = 0; at < size; at += chunk_size) {
      const std::size_t n = std::min(chunk_size, size - at);
      unsigned char* to = place(at, n);
      file_->read(begin + at, to, n);
      crc = crc32(crc, to, n);
      if (is_bool) check_bool(name, to, n, begin + at);
      take(at, n);
    }
    const auto expected = header.metadata.find(std::string(crc_prefix) + name);
    const bool has_checksum = expected != header.metadata.end();
    if (has_checksum ? expected->second != hex8(crc) : header.metadata.count(crc_key) != 0)
      damaged("`" + Json::excerpt(name) + "`: " +
                  (has_checksum ? "the checksum of its bytes does not match: they were changed "
                                  "since they were written"
                                : "has no checksum"),
              begin);
  }
  void check_bool(const std::string& name, const unsigned char* bytes, std::size_t n,
                  std::uint64_t offset) const;
  [[noreturn]] void damaged(const std::string& what, std::uint64_t offset) const;
  [[noreturn]] static void damaged(const Files::Path& path, const std::string& what,
                                   std::uint64_t offset);

  Files::Path path_;
  std::unique_ptr<InputFile> file_;
};

}  // namespace detail

using detail::TensorFileReader;

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/safetensors_reader.ipp>
#endif
