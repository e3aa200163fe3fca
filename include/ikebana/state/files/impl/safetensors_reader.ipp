#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/files/foreign_file.hpp>
#include <ikebana/state/files/safetensors_reader.hpp>

namespace ikebana::detail {

IKEBANA_INLINE FileHeader TensorFileReader::header(bool require_checksums) {
  FileHeader header = read_header();
  const bool is_saved_by_ikebana =
      std::any_of(header.metadata.begin(), header.metadata.end(),
                  [](const auto& item) { return item.first.starts_with("ikebana"); });
  if ((require_checksums || is_saved_by_ikebana) && !header.metadata.count(crc_key))
    damaged("`__metadata__`: the header has no checksum, so this is not an intact saved state", 8);
  return header;
}

IKEBANA_INLINE TensorFileReader::Layout TensorFileReader::layout(const Files::Path& path,
                                                                 const FileHeader& header,
                                                                 const std::string& name) {
  const FileTensor& entry = header.tensors.at(name);
  Layout item{type_of_name(entry.dtype), entry.shape};
  const auto found = header.metadata.find(std::string(dtype_prefix) + name);
  if (found == header.metadata.end()) return item;
  item.type = type_of_metadata(found->second);
  if (item.type == at::ScalarType::Undefined || c10::isQIntType(item.type) || entry.dtype != "U8" ||
      item.sizes.empty() ||
      item.sizes.back() != static_cast<std::int64_t>(c10::elementSize(item.type)))
    damaged(path, "`__metadata__." + Json::excerpt(found->first) + "` does not fit its tensor", 8);
  item.sizes.pop_back();
  return item;
}

IKEBANA_INLINE at::Tensor TensorFileReader::tensor(const FileHeader& header,
                                                   const std::string& name) {
  const Layout item = layout(path_, header, name);
  at::Tensor t = allocate(path_, item.sizes, item.type, name);
  auto to = static_cast<unsigned char*>(t.mutable_data_ptr());
  read(header, name, t.nbytes(), [to](std::size_t at, std::size_t) { return to + at; });
  return t;
}

IKEBANA_INLINE void TensorFileReader::rows(const FileHeader& header, const std::string& name,
                                           RowRange rows, const at::Tensor& to) {
  if (rows.count == 0) return;
  const std::size_t row = to.nbytes() / static_cast<std::size_t>(rows.count);
  const std::size_t first = static_cast<std::size_t>(rows.first) * row, end = first + to.nbytes();
  const FileTensor& entry = header.tensors.at(name);
  auto out = static_cast<unsigned char*>(to.mutable_data_ptr());
  std::vector<unsigned char> chunk(std::min<std::size_t>(chunk_size, entry.end - entry.begin));
  auto place = [&](std::size_t, std::size_t) { return chunk.data(); };
  read(header, name, entry.end - entry.begin, place, [&](std::size_t at, std::size_t n) {
    const std::size_t from = std::max(at, first), to_end = std::min(at + n, end);
    if (from < to_end) std::memcpy(out + (from - first), chunk.data() + (from - at), to_end - from);
  });
}

IKEBANA_INLINE TensorFile TensorFileReader::all(bool require_checksums) {
  StateDict tensors;
  auto keep = [&](const std::string& name, at::Tensor t) { tensors[name] = std::move(t); };
  FileHeader header = each(require_checksums, keep);
  return {std::move(header), std::move(tensors)};
}

IKEBANA_INLINE at::Tensor TensorFileReader::allocate(const Files::Path& path, at::IntArrayRef sizes,
                                                     at::ScalarType type, const std::string& name) {
  try {
    return at::empty(sizes, type);
  } catch (const c10::Error& error) {
    throw OutOfMemory("load: `" + path.string() + "`, `" + Json::excerpt(name) +
                      "`: " + error.what_without_backtrace() + ". Free memory on the machine.");
  }
}

IKEBANA_INLINE FileHeader TensorFileReader::read_header() {
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

IKEBANA_INLINE void TensorFileReader::check_bool(const std::string& name,
                                                 const unsigned char* bytes, std::size_t n,
                                                 std::uint64_t offset) const {
  const auto* invalid = std::find_if(bytes, bytes + n, [](auto c) { return c > 1; });
  if (invalid != bytes + n)
    damaged("`" + Json::excerpt(name) + "`: a byte of BOOL is neither 0 nor 1",
            offset + static_cast<std::uint64_t>(invalid - bytes));
}

IKEBANA_INLINE void TensorFileReader::damaged(const std::string& what, std::uint64_t offset) const {
  damaged(path_, what, offset);
}

IKEBANA_INLINE void TensorFileReader::damaged(const Files::Path& path, const std::string& what,
                                              std::uint64_t offset) {
  throw BadFile("load: `" + path.string() + "` is damaged or not a safetensors file, at byte " +
                std::to_string(offset) + ": " + what + ". Use another copy or an earlier state.");
}

}  // namespace ikebana::detail
