#pragma once
// Writes named tensors to a file, with a checksum of each; safetensors_reader.hpp reads them.
#include <ikebana/detail/flat_copy.hpp>
#include <ikebana/posix/files.hpp>
#include <ikebana/state/archive.hpp>
#include <ikebana/state/files/json_writer.hpp>
#include <ikebana/state/files/safetensors_format.hpp>

namespace ikebana {

/// Texts in a file beside its tensors, by name.
using Metadata = std::map<std::string, std::string>;

/// The header and the tensors that `load_tensors` reads.
struct TensorFile {
  FileHeader header;  ///< the header of the file, with its metadata
  StateDict tensors;  ///< the tensors, by name, on the CPU
};

namespace detail {

inline constexpr std::size_t chunk_size =
    1 << 20;  // bytes; still in the cache when the checksum reads it

struct NamedType {
  at::ScalarType type;
  const char* name;
};
inline constexpr NamedType named_types[] = {{at::kBool, "BOOL"},
                                            {at::kByte, "U8"},
                                            {at::kChar, "I8"},
                                            {at::kUInt16, "U16"},
                                            {at::kShort, "I16"},
                                            {at::kUInt32, "U32"},
                                            {at::kInt, "I32"},
                                            {at::kUInt64, "U64"},
                                            {at::kLong, "I64"},
                                            {at::kHalf, "F16"},
                                            {at::kBFloat16, "BF16"},
                                            {at::kFloat, "F32"},
                                            {at::kDouble, "F64"},
                                            {at::kFloat8_e4m3fn, "F8_E4M3"},
                                            {at::kFloat8_e5m2, "F8_E5M2"},
                                            {at::kFloat8_e4m3fnuz, "F8_E4M3FNUZ"},
                                            {at::kFloat8_e5m2fnuz, "F8_E5M2FNUZ"},
                                            {at::kComplexFloat, "C64"}};

/// Returns the format's name of a dtype; null if the format, or Python's reader of it, does not
/// know the dtype. Such a tensor is stored as U8 with one more dimension, the bytes of an element,
/// and the metadata names its dtype.
const char* name_of_type(at::ScalarType type);
/// Returns the dtype that has this name in the format, or Undefined if the name is unknown.
at::ScalarType type_of_name(std::string_view name);
/// Returns the dtype that has this name in LibTorch, which the metadata holds, or Undefined if the
/// name is unknown.
at::ScalarType type_of_metadata(const std::string& name);

/// Throws BadModel for a tensor that a file cannot hold.
void check_storable(const std::string& name, const at::Tensor& t);

/// Writes the elements of a tensor from `offset` on. Returns their CRC-32.
std::uint32_t write_elements(OutputFile& file, std::uint64_t offset, const at::Tensor& t);

/// Lays out and writes a file. Tensors with wide elements come first, so that each is aligned.
class TensorFileWriter {
 public:
  /// `rows` are the rows of whole tensors that the file has; they are written to the metadata.
  TensorFileWriter(const StateDict& dict, Metadata metadata, const StateRows& rows = {});
  /// Returns the size of the whole file in bytes.
  std::uint64_t size() const { return 8 + header_size_ + end_; }

  /// Writes the file. Returns the header's checksum, which covers all other checksums.
  std::uint32_t write(OutputFile& file);

  // The methods below write the file in parts, by several writers. Its tensors may then be without
  // values.

  /// Returns the offset of a tensor's elements in the file.
  std::uint64_t offset_of(const std::string& name) const;
  void set_checksum(const std::string& name, std::uint32_t crc);
  /// Writes the header, the last part.
  std::uint32_t write_header(OutputFile& file);

 private:
  struct Item {
    const std::string* name;
    const at::Tensor* tensor;
    std::uint64_t begin = 0;
  };

  /// Writes the first row, the row after the last, and the number of rows of the whole tensor.
  static std::string text(const Slice& slice);
  void add(const std::string& name, const at::Tensor& t);
  /// Makes the header, padded so that the tensors begin at a multiple of 64 bytes.
  std::string header();
  static void write_entry(JsonWriter& json, const Item& item);

  Metadata metadata_;
  std::vector<Item> items_;
  std::uint64_t end_ = 0, header_size_ = 0;  // the bytes of all tensors, and of the header
  std::size_t digits_ = 0;                   // offset of the header's checksum in the header
};

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/safetensors_writer.ipp>
#endif
