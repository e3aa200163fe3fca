// Takes a safetensors file apart and writes it again.
#include "state/campaign/document.hpp"

#include <algorithm>
#include <ikebana/state/files/safetensors_format.hpp>

namespace campaign {
namespace {

using ikebana::detail::Json;

std::string list(const auto& numbers) {
  std::string text = "[";
  for (const auto number : numbers) text += (text.size() > 1 ? "," : "") + std::to_string(number);
  return text + "]";
}

}  // namespace

std::string Entry::field(const std::string& which) const {
  if (auto found = raw.find(which); found != raw.end()) return found->second;
  if (which == "name") return Json::quoted(name);
  if (which == "dtype") return Json::quoted(dtype);
  return which == "shape" ? list(shape) : list(std::vector{begin, end});
}

std::string Entry::text(const std::string& colon, const std::string& comma) const {
  std::string all;
  for (const char* which : {"dtype", "shape", "data_offsets"})
    if (const std::string value = field(which); !value.empty())
      all += (all.empty() ? "" : comma) + Json::quoted(which) + colon + value;
  return field("name") + colon + (instead.empty() ? "{" + all + more + "}" : instead);
}

Document Document::of(const std::string& bytes) {
  std::uint64_t length = 0;
  std::copy_n(bytes.data(), 8, reinterpret_cast<char*>(&length));
  const auto header =
      ikebana::detail::HeaderReader::read(std::string_view(bytes).substr(8, length), bytes.size());
  Document all;
  for (const auto& [key, value] : header.metadata)
    all.metadata.emplace_back(Json::quoted(key), Json::quoted(value));
  for (const auto& [name, t] : header.tensors)
    all.tensors.push_back({name, t.dtype, t.shape, t.begin, t.end});
  all.data = bytes.substr(header.data);
  return all;
}

const std::string* Document::metadata_value(const std::string& key) const {
  const std::string quoted = Json::quoted(key);
  for (const auto& [known, value] : metadata)
    if (known == quoted) return &value;
  return nullptr;
}

void Document::remove_metadata(const std::string& key) {
  const std::string quoted = Json::quoted(key);
  std::erase_if(metadata, [&](const auto& item) { return item.first == quoted; });
}

void Document::fix_tensor_checksums() {
  std::erase_if(metadata,
                [](const auto& item) { return item.first.starts_with("\"ikebana.crc32."); });
  for (const Entry& e : tensors) {
    const std::uint64_t begin = std::min<std::uint64_t>(e.begin, data.size());
    const std::uint64_t n = std::min<std::uint64_t>(e.bytes(), data.size() - begin);
    const std::string crc =
        ikebana::detail::hex8(ikebana::detail::crc32(0, data.data() + begin, n));
    metadata.emplace_back(Json::quoted("ikebana.crc32." + e.name), Json::quoted(crc));
  }
}

std::string Document::text() const {
  std::string all = front + "{\"__metadata__\"" + colon + "{";
  for (const auto& [key, value] : metadata)
    all += (all.back() == '{' ? "" : comma) + key + colon + value;
  all += "}";
  for (const Entry& e : tensors) all += comma + e.text(colon, comma);
  return all + "}" + back;
}

std::string Document::written(FixChecksums fix) const {
  Document copy = *this;
  if (fix == FixChecksums::All && !keeps_checksums) copy.fix_tensor_checksums();
  std::string all = copy.text();
  const std::string key = "\"ikebana.crc32\"" + colon + "\"";
  if (const auto at = all.find(key); fix != FixChecksums::None && at != all.npos) {
    const std::size_t digits = at + key.size();
    if (digits + 8 < all.size())
      all.replace(digits, 8,
                  ikebana::detail::hex8(ikebana::detail::HeaderReader::checksum(all, digits)));
  }
  const std::uint64_t size = length.value_or(all.size());
  return std::string(reinterpret_cast<const char*>(&size), 8) + all + data;
}

}  // namespace campaign
