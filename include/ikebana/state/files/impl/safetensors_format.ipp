#pragma once
#include <algorithm>
#include <array>
#include <ikebana/detail/form.hpp>
#include <ikebana/state/files/crc32.hpp>
#include <ikebana/state/files/safetensors_format.hpp>
#include <limits>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE std::optional<std::string> tensor_of_key(std::string_view key) {
  for (const std::string_view prefix : {crc_prefix, dtype_prefix, rows_prefix})
    if (key.starts_with(prefix)) return std::string(key.substr(prefix.size()));
  return {};
}

IKEBANA_INLINE std::uint64_t bytes_of_type(std::string_view name) {
  for (const auto& type : file_types)
    if (type.name == name) return type.bytes;
  return 0;
}

IKEBANA_INLINE std::string hex8(std::uint32_t value) {
  std::string text(8, '0');
  for (std::size_t i = 0; i < 8; ++i) text[7 - i] = "0123456789abcdef"[(value >> (4 * i)) & 15];
  return text;
}

IKEBANA_INLINE FileHeader HeaderReader::read(std::string_view text, std::uint64_t size) {
  HeaderReader reader(text, size);
  try {
    return reader.header();
  } catch (const Json::ParseError& error) {
    const std::string field = reader.field_.empty() ? "the header" : "`" + reader.field_ + "`";
    throw Json::ParseError{field + ": " + error.what, error.offset};
  }
}

IKEBANA_INLINE HeaderReader::HeaderReader(std::string_view text, std::uint64_t size)
    : json_(text, 8), text_(text) {
  header_.data = 8 + text.size();
  size_ = size - header_.data;
}

IKEBANA_INLINE FileHeader HeaderReader::header() {
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

IKEBANA_INLINE void HeaderReader::metadata() {
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

IKEBANA_INLINE void HeaderReader::tensor(const std::string& name) {
  if (header_.tensors.count(name)) json_.fail("appears twice");
  FileTensor& t = header_.tensors[name];
  std::vector<std::int64_t> offsets;
  unsigned seen = 0;
  json_.object("a tensor's entry", [&](const std::string& key) {
    field_ = Json::excerpt(name) + "." + Json::excerpt(key);
    const unsigned field = key == "dtype" ? 1 : key == "shape" ? 2 : key == "data_offsets" ? 4 : 0;
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
  t.begin = static_cast<std::uint64_t>(offsets[0]), t.end = static_cast<std::uint64_t>(offsets[1]);
  check_size(t);
}

IKEBANA_INLINE void HeaderReader::number(std::vector<std::int64_t>& list) {
  if (list.size() == 64) json_.fail("has more than 64 numbers");
  list.push_back(json_.integer());
}

IKEBANA_INLINE void HeaderReader::check_size(const FileTensor& t) {
  const std::uint64_t bytes = bytes_of_type(t.dtype);
  if (bytes == 0) json_.fail("dtype `" + Json::excerpt(t.dtype) + "` is not known");
  constexpr auto max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  // Strides count a dimension of size 0 as 1, so they may overflow although the size does not.
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

IKEBANA_INLINE void HeaderReader::check_checksum() {
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

IKEBANA_INLINE void HeaderReader::check_layout() {
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

IKEBANA_INLINE std::uint32_t HeaderReader::checksum(std::string_view text, std::size_t digits_at) {
  std::array<unsigned char, 8> length;
  for (std::size_t i = 0; i < 8; ++i)
    length[i] = static_cast<unsigned char>(std::uint64_t{text.size()} >> (8 * i));
  std::uint32_t crc = crc32(crc32(0, length.data(), 8), text.data(), digits_at);
  crc = crc32(crc, "00000000", 8);
  return crc32(crc, text.data() + digits_at + 8, text.size() - digits_at - 8);
}

}  // namespace ikebana::detail
