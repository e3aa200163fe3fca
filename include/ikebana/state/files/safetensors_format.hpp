#pragma once
// Defines the format of saved states and weights, safetensors: the length of a JSON header, the
// header, the tensors' bytes. Source: github.com/huggingface/safetensors. It is independent of
// LibTorch, so that a fuzzer can run it on its own.
#include <bit>
#include <cstddef>
#include <cstring>
#include <ikebana/state/files/json.hpp>
#include <map>
#include <optional>
#include <vector>

namespace ikebana {

/// One tensor of a file.
struct FileTensor {
  std::string dtype;                ///< the format's name of the dtype: F32, BF16, I64
  std::vector<std::int64_t> shape;  ///< its sizes
  std::uint64_t begin = 0;          ///< offset of its bytes from the first tensor's first byte
  std::uint64_t end = 0;            ///< offset behind its last byte
};

/// The header of a file of tensors.
struct FileHeader {
  std::map<std::string, std::string> metadata;  ///< texts by name, checksums among them
  std::map<std::string, FileTensor> tensors;    ///< the tensors, by name
  std::uint64_t data = 0;                       ///< offset of the tensors' bytes in the file
};

namespace detail {

static_assert(std::endian::native == std::endian::little,
              "ikebana: saved states are little-endian, and this machine is not. Use one that is.");

inline constexpr const char* crc_key = "ikebana.crc32";             // the header's checksum
inline constexpr std::string_view crc_prefix = "ikebana.crc32.";    // followed by a tensor's name
inline constexpr std::string_view dtype_prefix = "ikebana.dtype.";  // followed by a tensor's name
inline constexpr std::string_view rows_prefix = "ikebana.rows.";    // followed by a tensor's name
inline constexpr std::uint64_t max_header_bytes = 100'000'000;      // the limit of other readers

/// Returns the tensor that a key of the metadata refers to, if it refers to one.
std::optional<std::string> tensor_of_key(std::string_view key);

struct FileType {
  std::string_view name;
  std::uint64_t bytes;
};
inline constexpr FileType file_types[] = {
    {"BOOL", 1}, {"U8", 1},          {"I8", 1},          {"F8_E4M3", 1}, {"F8_E5M2", 1},
    {"U16", 2},  {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1}, {"F8_E8M0", 1}, {"I16", 2},
    {"F16", 2},  {"BF16", 2},        {"U32", 4},         {"I32", 4},     {"F32", 4},
    {"U64", 8},  {"I64", 8},         {"F64", 8},         {"C64", 8}};
/// Returns the bytes per element of a dtype; 0 if its name is unknown.
std::uint64_t bytes_of_type(std::string_view name);
/// Writes a number as eight hexadecimal digits.
std::string hex8(std::uint32_t value);

/// Reads untrusted headers; every field is checked.
class HeaderReader {
 public:
  /// `text` is the header, which begins at byte 8 of a file of `size` bytes. Throws
  /// Json::ParseError.
  static FileHeader read(std::string_view text, std::uint64_t size);

 private:
  HeaderReader(std::string_view text, std::uint64_t size);

  FileHeader header();
  void metadata();
  void tensor(const std::string& name);
  void number(std::vector<std::int64_t>& list);
  void check_size(const FileTensor& t);
  /// Compares the header's checksum, which covers the file up to the first tensor, with its own
  /// eight digits taken as zeros.
  void check_checksum();
  /// Checks that tensors follow each other without gaps, up to the end of the file.
  void check_layout();

 public:
  static std::uint32_t checksum(std::string_view text, std::size_t digits_at);

 private:
  Json json_;
  std::string_view text_;
  FileHeader header_;
  std::string field_;       // the field that is being read, for errors
  std::uint64_t size_ = 0;  // bytes of the tensors
  std::size_t crc_at_ = 0;  // offset of the checksum's digits in the header
  bool has_metadata_ = false;
};

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/safetensors_format.ipp>
#endif
