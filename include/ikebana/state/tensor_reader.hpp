#pragma once
// Reads named tensors from untrusted files; every field is checked.
#include <cstring>
#include <ikebana/detail/slice.hpp>
#include <ikebana/state/foreign_file.hpp>
#include <ikebana/state/tensor_file.hpp>

namespace ikebana {

/// What `load_tensors` reads.
struct TensorFile {
  FileHeader header;  ///< of the file, with its metadata
  StateDict tensors;  ///< by name, on the CPU
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
  /// Dtype and shape of one tensor, which may be stored as bytes.
  struct Layout {
    at::ScalarType type;
    std::vector<std::int64_t> sizes;
  };
  static Layout layout(const Files::Path& path, const FileHeader& header, const std::string& name) {
    const FileTensor& entry = header.tensors.at(name);
    Layout item{type_of_name(entry.dtype), entry.shape};
    const auto found = header.metadata.find(std::string(dtype_prefix) + name);
    if (found == header.metadata.end()) return item;
    item.type = type_of_metadata(found->second);
    if (item.type == at::ScalarType::Undefined || c10::isQIntType(item.type) ||
        entry.dtype != "U8" || item.sizes.empty() ||
        item.sizes.back() != static_cast<std::int64_t>(c10::elementSize(item.type)))
      damaged(path, "`__metadata__." + Json::excerpt(found->first) + "` does not fit its tensor",
              8);
    item.sizes.pop_back();
    return item;
  }
  /// Reads one tensor of the file and compares its checksum if there is one.
  at::Tensor tensor(const FileHeader& header, const std::string& name) {
    const Layout item = layout(path_, header, name);
    at::Tensor t = allocate(path_, item.sizes, item.type, name);
    auto to = static_cast<unsigned char*>(t.mutable_data_ptr());
    read(header, name, t.nbytes(), [to](std::size_t at, std::size_t) { return to + at; });
    return t;
  }
  /// Reads `rows` of it to `to`, which is contiguous. All of its bytes pass through one chunk of
  /// memory, since the checksum is of all of them.
  void rows(const FileHeader& header, const std::string& name, RowRange rows,
            const at::Tensor& to) {
    if (rows.count == 0) return;
    const std::size_t row = to.nbytes() / static_cast<std::size_t>(rows.count);
    const std::size_t first = static_cast<std::size_t>(rows.first) * row, end = first + to.nbytes();
    const FileTensor& entry = header.tensors.at(name);
    auto out = static_cast<unsigned char*>(to.mutable_data_ptr());
    std::vector<unsigned char> chunk(std::min<std::size_t>(chunk_size, entry.end - entry.begin));
    auto place = [&](std::size_t, std::size_t) { return chunk.data(); };
    read(header, name, entry.end - entry.begin, place, [&](std::size_t at, std::size_t n) {
      const std::size_t from = std::max(at, first), to_end = std::min(at + n, end);
      if (from < to_end)
        std::memcpy(out + (from - first), chunk.data() + (from - at), to_end - from);
    });
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

  static at::Tensor allocate(const Files::Path& path, at::IntArrayRef sizes, at::ScalarType type,
                             const std::string& name) {
    try {
      return at::empty(sizes, type);
    } catch (const c10::Error& error) {
      throw OutOfMemory("load: `" + path.string() + "`, `" + Json::excerpt(name) +
                        "`: " + error.what_without_backtrace() + ". Free memory on the machine.");
    }
  }

 private:
  FileHeader read_header() {
    const std::uint64_t size = file_->size();
    std::uint64_t length = 0;
    if (size < 8) damaged("the header: the file ends within its length", size);
    file_->read(0, &length, 8);
    if (length > size - 8 || length > max_header_bytes) {
      check_not_foreign(*file_, path_);
      damaged("the header: its length is " + std::to_string(length) +
                  ", more than the file or a reader's limit allows",
              0);
    }
    std::string text(length, '\0');
    file_->read(8, text.data(), length);
    try {
      return HeaderReader::read(text, size);
    } catch (const Json::ParseError& error) {
      check_not_foreign(*file_, path_);
      damaged(error.what, error.offset);
    }
  }
  static void nothing(std::size_t, std::size_t) {}
  /// Reads the bytes of a tensor, chunk by chunk: those from `at` on, `n` of them, to `place(at,
  /// n)`, then calls `take(at, n)`. Compares the checksum.
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
                  std::uint64_t offset) const {
    const auto* invalid = std::find_if(bytes, bytes + n, [](auto c) { return c > 1; });
    if (invalid != bytes + n)
      damaged("`" + Json::excerpt(name) + "`: a byte of BOOL is neither 0 nor 1",
              offset + static_cast<std::uint64_t>(invalid - bytes));
  }
  [[noreturn]] void damaged(const std::string& what, std::uint64_t offset) const {
    damaged(path_, what, offset);
  }
  [[noreturn]] static void damaged(const Files::Path& path, const std::string& what,
                                   std::uint64_t offset) {
    throw BadFile("load: `" + path.string() + "` is damaged or not a safetensors file, at byte " +
                  std::to_string(offset) + ": " + what + ". Use another copy or an earlier state.");
  }

  Files::Path path_;
  std::unique_ptr<InputFile> file_;
};

}  // namespace detail

using detail::TensorFileReader;

}  // namespace ikebana
