#pragma once
#include <array>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/files/crc32.hpp>
#include <ikebana/state/files/safetensors_format.hpp>
#include <ikebana/state/files/safetensors_writer.hpp>

namespace ikebana::detail {

IKEBANA_INLINE const char* name_of_type(at::ScalarType type) {
  for (const auto& known : named_types)
    if (known.type == type) return known.name;
  return nullptr;
}

IKEBANA_INLINE at::ScalarType type_of_name(std::string_view name) {
  for (const auto& known : named_types)
    if (known.name == name) return known.type;
  return name == "F8_E8M0" ? at::kFloat8_e8m0fnu : at::ScalarType::Undefined;
}

IKEBANA_INLINE at::ScalarType type_of_metadata(const std::string& name) {
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i)
    if (auto type = static_cast<at::ScalarType>(i); name == c10::toString(type)) return type;
  return at::ScalarType::Undefined;
}

IKEBANA_INLINE void check_storable(const std::string& name, const at::Tensor& t) {
  auto refuse = [&](const char* what) {
    throw BadModel(
        "save: `" + name + "` " + what +
        "; a file holds dense tensors that are not quantized. Convert it, or leave it out.");
  };
  if (name == "__metadata__") refuse("has the reserved name of the file's metadata");
  if (!t.defined()) refuse("is undefined");
  if (t.layout() != at::kStrided) refuse("is sparse");
  if (c10::isQIntType(t.scalar_type())) refuse("is quantized");
}

IKEBANA_INLINE std::uint32_t write_elements(OutputFile& file, std::uint64_t offset,
                                            const at::Tensor& t) {
  const at::Tensor bytes = dense(t);
  auto from = static_cast<const char*>(bytes.const_data_ptr());
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < bytes.nbytes(); at += chunk_size) {
    const std::size_t n = std::min(chunk_size, bytes.nbytes() - at);
    crc = crc32(crc, from + at, n);
    file.write(offset + at, from + at, n);
  }
  return crc;
}

IKEBANA_INLINE TensorFileWriter::TensorFileWriter(const StateDict& dict, Metadata metadata,
                                                  const StateRows& rows)
    : metadata_(std::move(metadata)) {
  // Keys that refer to the tensors of a file that was loaded do not apply to the new file.
  std::erase_if(metadata_, [](const auto& item) { return tensor_of_key(item.first).has_value(); });
  metadata_.emplace("format", "pt");
  metadata_[crc_key] = hex8(0);
  for (const auto& [name, t] : dict) add(name, t);
  for (const auto& [name, slice] : rows)
    if (dict.count(name) && !slice.is_whole())
      metadata_[std::string(rows_prefix) + name] = text(slice);
  std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
    return a.tensor->element_size() > b.tensor->element_size();
  });
  for (Item& item : items_) {
    item.begin = end_;
    end_ += item.tensor->nbytes();
  }
  header_size_ = header().size();
  if (header_size_ > max_header_bytes)
    throw BadModel("save: the names of " + std::to_string(items_.size()) +
                   " tensors make a header of " + std::to_string(header_size_) +
                   " bytes; readers accept " + std::to_string(max_header_bytes) +
                   ". Save them in several files.");
}

IKEBANA_INLINE std::uint32_t TensorFileWriter::write(OutputFile& file) {
  for (const Item& item : items_)
    set_checksum(*item.name, write_elements(file, 8 + header_size_ + item.begin, *item.tensor));
  return write_header(file);
}

IKEBANA_INLINE std::uint64_t TensorFileWriter::offset_of(const std::string& name) const {
  const auto found = std::find_if(items_.begin(), items_.end(),
                                  [&](const Item& item) { return *item.name == name; });
  return 8 + header_size_ + found->begin;
}

IKEBANA_INLINE void TensorFileWriter::set_checksum(const std::string& name, std::uint32_t crc) {
  metadata_[std::string(crc_prefix) + name] = hex8(crc);
}

IKEBANA_INLINE std::uint32_t TensorFileWriter::write_header(OutputFile& file) {
  std::string text = header();
  const std::uint32_t crc = HeaderReader::checksum(text, digits_);
  text.replace(digits_, 8, hex8(crc));
  const std::uint64_t length = text.size();
  text.insert(0, reinterpret_cast<const char*>(&length), 8);
  file.write(0, text.data(), text.size());
  return crc;
}

IKEBANA_INLINE std::string TensorFileWriter::text(const Slice& slice) {
  return c10::str(slice.rows.first, " ", slice.rows.first + slice.rows.count, " ", slice.sizes[0]);
}

IKEBANA_INLINE void TensorFileWriter::add(const std::string& name, const at::Tensor& t) {
  check_storable(name, t);
  if (!name_of_type(t.scalar_type()))
    metadata_[std::string(dtype_prefix) + name] = c10::toString(t.scalar_type());
  metadata_[std::string(crc_prefix) + name] = hex8(0);
  items_.push_back({&name, &t});
}

IKEBANA_INLINE std::string TensorFileWriter::header() {
  JsonWriter json;
  json.object([&] {
    json.object("__metadata__", [&] {
      for (const auto& [key, value] : metadata_) {
        json.key(key);
        if (key == crc_key) digits_ = json.size() + 1;
        json.string(value);
      }
    });
    for (const Item& item : items_) json.object(*item.name, [&] { write_entry(json, item); });
  });
  std::string text = std::move(json).text();
  text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');
  return text;
}

IKEBANA_INLINE void TensorFileWriter::write_entry(JsonWriter& json, const Item& item) {
  const at::Tensor& t = *item.tensor;
  const char* type = name_of_type(t.scalar_type());
  std::vector<std::int64_t> shape = t.sizes().vec();
  if (!type) shape.push_back(static_cast<std::int64_t>(t.element_size()));
  json.member("dtype", type ? type : "U8");
  json.member("shape", shape);
  json.member("data_offsets", std::array{item.begin, item.begin + t.nbytes()});
}

}  // namespace ikebana::detail
