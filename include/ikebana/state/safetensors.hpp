#pragma once
// The format of saved states and weights, safetensors: the length of a JSON header, the header, the
// tensors' bytes. Source: github.com/huggingface/safetensors. Independent of LibTorch, so that a
// fuzzer can run it on its own.
#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <ikebana/state/crc32.hpp>
#include <ikebana/state/json.hpp>
#include <map>
#include <optional>
#include <vector>

namespace ikebana {

/// One tensor of a file.
struct FileTensor {
  std::string dtype;                ///< by the format's name: F32, BF16, I64
  std::vector<std::int64_t> shape;  ///< its sizes
  std::uint64_t begin = 0;          ///< offset of its bytes from the first tensor's first byte
  std::uint64_t end = 0;            ///< offset behind its last byte
};

/// The header of a file of tensors.
struct FileHeader {
  std::map<std::string, std::string> metadata;  ///< texts by name, checksums among them
  std::map<std::string, FileTensor> tensors;    ///< by name
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

/// The tensor that a key of the metadata refers to, if any.
inline std::optional<std::string> tensor_of_key(std::string_view key) {
  for (const std::string_view prefix : {crc_prefix, dtype_prefix, rows_prefix})
    if (key.starts_with(prefix)) return std::string(key.substr(prefix.size()));
  return {};
}

struct FileType {
  std::string_view name;
  std::uint64_t bytes;
};
inline constexpr FileType file_types[] = {
    {"BOOL", 1}, {"U8", 1},          {"I8", 1},          {"F8_E4M3", 1}, {"F8_E5M2", 1},
    {"U16", 2},  {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1}, {"F8_E8M0", 1}, {"I16", 2},
    {"F16", 2},  {"BF16", 2},        {"U32", 4},         {"I32", 4},     {"F32", 4},
    {"U64", 8},  {"I64", 8},         {"F64", 8},         {"C64", 8}};
/// Bytes per element of a dtype; 0 if its name is unknown.
inline std::uint64_t bytes_of_type(std::string_view name) {
  for (const auto& type : file_types)
    if (type.name == name) return type.bytes;
  return 0;
}
/// Eight hexadecimal digits.
inline std::string hex8(std::uint32_t value) {
  std::string text(8, '0');
  for (std::size_t i = 0; i < 8; ++i) text[7 - i] = "0123456789abcdef"[(value >> (4 * i)) & 15];
  return text;
}

/// Reads untrusted headers; every field is checked.
class HeaderReader {
 public:
  /// `text` is the header, which begins at byte 8 of a file of `size` bytes. Throws
  /// Json::ParseError.
  static FileHeader read(std::string_view text, std::uint64_t size) {
    HeaderReader reader(text, size);
    try {
      return reader.header();
    } catch (const Json::ParseError& error) {
      const std::string field = reader.field_.empty() ? "the header" : "`" + reader.field_ + "`";
      throw Json::ParseError{field + ": " + error.what, error.offset};
    }
  }

 private:
  HeaderReader(std::string_view text, std::uint64_t size) : json_(text, 8), text_(text) {
    header_.data = 8 + text.size();
    size_ = size - header_.data;
  }

  FileHeader header() {
    if (text_.empty() || text_[0] != '{') json_.fail("does not begin with `{`");
    json_.object("the header", [&](const std::string& key) {
      field_ = Json::excerpt(key);
      if (key == "__metadata__") metadata();
      else tensor(key);
      field_.clear();
    });
    json_.expect_end("its last `}`");
    check_checksum();
    check_layout();
    return std::move(header_);
  }
  void metadata() {
    if (has_metadata_) json_.fail("appears twice");
    has_metadata_ = true;
    json_.object("the metadata", [&](const std::string& key) {
      field_ = "__metadata__." + Json::excerpt(key);
      const std::uint64_t value_at = json_.offset() - 8;
      std::string value = json_.string();
      if (key == crc_key) crc_at_ = text_.find('"', value_at) + 1;
      if (!header_.metadata.emplace(key, std::move(value)).second) json_.fail("appears twice");
    });
  }
  void tensor(const std::string& name) {
    if (header_.tensors.count(name)) json_.fail("appears twice");
    FileTensor& t = header_.tensors[name];
    std::vector<std::int64_t> offsets;
    unsigned seen = 0;
    json_.object("a tensor's entry", [&](const std::string& key) {
      field_ = Json::excerpt(name) + "." + Json::excerpt(key);
      const unsigned field = key == "dtype"          ? 1
                             : key == "shape"        ? 2
                             : key == "data_offsets" ? 4
                                                     : 0;
      if (field == 0) json_.fail("is no field of a tensor's entry");
      if ((seen & field) != 0) json_.fail("appears twice");
      seen |= field;
      if (field == 1) t.dtype = json_.string();
      else json_.array(key.c_str(), [&] { number(field == 2 ? t.shape : offsets); });
    });
    field_ = Json::excerpt(name);
    if (seen != 7) json_.fail("needs dtype, shape and data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1])
      json_.fail("data_offsets must be two numbers in ascending order");
    t.begin = static_cast<std::uint64_t>(offsets[0]),
    t.end = static_cast<std::uint64_t>(offsets[1]);
    check_size(t);
  }
  void number(std::vector<std::int64_t>& list) {
    if (list.size() == 64) json_.fail("has more than 64 numbers");
    list.push_back(json_.integer());
  }
  void check_size(const FileTensor& t) {
    const std::uint64_t bytes = bytes_of_type(t.dtype);
    if (bytes == 0) json_.fail("dtype `" + Json::excerpt(t.dtype) + "` is not known");
    constexpr auto max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    // Strides count a dimension of size 0 as 1, so they may overflow where the size does not.
    std::uint64_t total = bytes, strided = bytes;
    for (const std::int64_t dim : t.shape) {
      const auto d = static_cast<std::uint64_t>(dim);
      if (d > 1 && strided > max / d) json_.fail("shape is too large");
      strided *= d > 1 ? d : 1, total *= d;
    }
    if (t.end > size_)
      json_.fail("ends at byte " + std::to_string(t.end) + " of " + std::to_string(size_) +
                 " that the file has for tensors");
    if (t.end - t.begin != total)
      json_.fail("has " + std::to_string(t.end - t.begin) + " bytes where its shape needs " +
                 std::to_string(total));
  }
  /// The header's checksum covers the file up to the first tensor, with its own eight digits taken
  /// as zeros.
  void check_checksum() {
    auto found = header_.metadata.find(crc_key);
    if (found == header_.metadata.end()) return;
    field_ = std::string("__metadata__.") + crc_key;
    if (text_.substr(crc_at_, found->second.size()) != found->second || found->second.size() != 8)
      json_.fail("is not eight hexadecimal digits");
    if (found->second != hex8(checksum(text_, crc_at_)))
      json_.fail("the header's checksum does not match: it was changed since it was written");
    for (const auto& [key, value] : header_.metadata) {
      field_ = "__metadata__." + Json::excerpt(key);
      if (auto name = tensor_of_key(key); name && !header_.tensors.count(*name))
        json_.fail("refers to a tensor that the file does not have");
    }
  }
  /// Tensors must follow each other without gaps, up to the end of the file.
  void check_layout() {
    std::vector<const std::pair<const std::string, FileTensor>*> in_order;
    in_order.reserve(header_.tensors.size());
    for (const auto& item : header_.tensors) in_order.push_back(&item);
    std::sort(in_order.begin(), in_order.end(), [](const auto* a, const auto* b) {
      return std::pair(a->second.begin, a->second.end) < std::pair(b->second.begin, b->second.end);
    });
    std::uint64_t at = 0;
    for (const auto* item : in_order) {
      field_ = Json::excerpt(item->first) + ".data_offsets";
      if (item->second.begin != at)
        json_.fail("begin at byte " + std::to_string(item->second.begin) +
                   " of the tensors, and the one before ends at " + std::to_string(at));
      at = item->second.end;
    }
    field_.clear();
    if (at != size_)
      json_.fail("its tensors end at byte " + std::to_string(at) + " of " + std::to_string(size_) +
                 " that the file has for tensors");
  }

 public:
  static std::uint32_t checksum(std::string_view text, std::size_t digits_at) {
    std::array<unsigned char, 8> length;
    for (std::size_t i = 0; i < 8; ++i)
      length[i] = static_cast<unsigned char>(std::uint64_t{text.size()} >> (8 * i));
    std::uint32_t crc = crc32(crc32(0, length.data(), 8), text.data(), digits_at);
    crc = crc32(crc, "00000000", 8);
    return crc32(crc, text.data() + digits_at + 8, text.size() - digits_at - 8);
  }

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
