#pragma once
// Named tensors to a file and back, to the bit, with a checksum of each.
#include <ikebana/state/archive.hpp>
#include <ikebana/state/files.hpp>
#include <ikebana/state/safetensors.hpp>

namespace ikebana {

/// Texts that a file carries beside its tensors.
using Metadata = std::map<std::string, std::string>;

/// A file's tensors, on the CPU, and what it says of itself.
struct TensorFile {
  FileHeader header;
  StateDict tensors;
};

namespace detail {

inline constexpr const char* dtype_key = "ikebana.dtype.";  // and a tensor's name
inline constexpr std::size_t portion = 1 << 20;  // what stays in the cache while it is added up

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

/// Null for a type that the format, or Python's reader of it, does not know: such a tensor is
/// stored as U8 with one more dimension, the bytes of an element, and its type in the metadata.
inline const char* name_of_type(at::ScalarType type) {
  for (const auto& known : named_types)
    if (known.type == type) return known.name;
  return nullptr;
}
inline at::ScalarType type_of_name(std::string_view name) {
  for (const auto& known : named_types)
    if (known.name == name) return known.type;
  return name == "F8_E8M0" ? at::kFloat8_e8m0fnu : at::ScalarType::Undefined;
}
inline at::ScalarType type_of_metadata(const std::string& name) {
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i)
    if (auto type = static_cast<at::ScalarType>(i); name == c10::toString(type)) return type;
  return at::ScalarType::Undefined;
}

/// The bytes of a tensor in the order of its indices, where the CPU can read them.
inline at::Tensor dense(const at::Tensor& t) {
  return t.detach().cpu().resolve_conj().resolve_neg().contiguous();
}

/// What a file will hold, in its order: wide types first, so that every tensor is aligned.
class TensorFileWriter {
 public:
  TensorFileWriter(const StateDict& dict, Metadata metadata) : metadata_(std::move(metadata)) {
    std::erase_if(metadata_, [](const auto& item) {  // what another file said of its own tensors
      return item.first.starts_with(crc_key) || item.first.starts_with(dtype_key);
    });
    metadata_.emplace("format", "pt");
    metadata_[crc_key] = hex8(0);
    for (const auto& [name, t] : dict) add(name, t);
    std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      return a.tensor->element_size() > b.tensor->element_size();
    });
    for (Item& item : items_) {
      item.begin = end_;
      end_ += item.tensor->nbytes();
    }
    header_size_ = header().size();
  }
  std::uint64_t size() const { return 8 + header_size_ + end_; }

  void write(OutputFile& file) {
    for (const Item& item : items_) {
      const at::Tensor bytes = dense(*item.tensor);
      auto from = static_cast<const char*>(bytes.const_data_ptr());
      std::uint32_t crc = 0;
      for (std::size_t at = 0; at < bytes.nbytes(); at += portion) {
        const std::size_t n = std::min(portion, bytes.nbytes() - at);
        crc = crc32(crc, from + at, n);
        file.write(8 + header_size_ + item.begin + at, from + at, n);
      }
      metadata_[std::string(crc_key) + "." + *item.name] = hex8(crc);
    }
    std::string text = header();
    text.replace(digits_, 8, hex8(HeaderReader::checksum(text, digits_)));
    std::uint64_t length = text.size();
    text.insert(0, reinterpret_cast<const char*>(&length), 8);
    file.write(0, text.data(), text.size());
  }

 private:
  struct Item {
    const std::string* name;
    const at::Tensor* tensor;
    std::uint64_t begin = 0;
  };

  void add(const std::string& name, const at::Tensor& t) {
    auto refused = [&](const char* what) {
      throw BadModel("save: `" + name + "` " + what + "; a file holds dense tensors of numbers.");
    };
    if (name == "__metadata__") refused("has the name of the file's metadata");
    if (!t.defined()) refused("is undefined");
    if (t.layout() != at::kStrided) refused("is sparse");
    if (c10::isQIntType(t.scalar_type())) refused("is quantized");
    if (!name_of_type(t.scalar_type()))
      metadata_[dtype_key + name] = c10::toString(t.scalar_type());
    metadata_[std::string(crc_key) + "." + name] = hex8(0);
    items_.push_back({&name, &t});
  }
  /// Padded so that the tensors begin at a multiple of 64 bytes.
  std::string header() {
    std::string text = "{\"__metadata__\":{";
    for (const auto& [key, value] : metadata_) {
      text += (text.back() == '{' ? "" : ",") + Json::quoted(key) + ":";
      if (key == crc_key) digits_ = text.size() + 1;
      text += Json::quoted(value);
    }
    text += '}';
    for (const Item& item : items_) {
      const at::Tensor& t = *item.tensor;
      const char* type = name_of_type(t.scalar_type());
      std::string shape = c10::Join(",", t.sizes());
      if (!type) shape += (t.dim() > 0 ? "," : "") + std::to_string(t.element_size());
      text += "," + Json::quoted(*item.name) + ":{\"dtype\":\"" + (type ? type : "U8") +
              "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(item.begin) + "," +
              std::to_string(item.begin + t.nbytes()) + "]}";
    }
    text += '}';
    text.resize((text.size() + 8 + 63) / 64 * 64 - 8, ' ');
    return text;
  }

  Metadata metadata_;
  std::vector<Item> items_;
  std::uint64_t end_ = 0, header_size_ = 0;
  std::size_t digits_ = 0;  // where the header's own checksum is in it
};

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
    if (auto found = header.metadata.find(dtype_key + name); found != header.metadata.end()) {
      type = type_of_metadata(found->second);
      if (type == at::ScalarType::Undefined || c10::isQIntType(type) || t.dtype != "U8" ||
          sizes.empty() || sizes.back() != static_cast<std::int64_t>(c10::elementSize(type)))
        bad("`__metadata__." + found->first + "` does not fit its tensor", 8);
      sizes.pop_back();
    }
    at::Tensor bytes = at::empty(sizes, type);
    const std::uint32_t crc = read(name, bytes, begin);
    auto wanted = header.metadata.find(std::string(crc_key) + "." + name);
    const bool has_one = wanted != header.metadata.end();
    if (has_one ? wanted->second != hex8(crc) : header.metadata.count(crc_key) != 0)
      bad("`" + name + "`: " +
              (has_one ? "the checksum of its bytes is another: they were changed "
                         "since they were written"
                       : "has no checksum"),
          begin);
    return bytes;
  }
  TensorFile all(bool checksums) {
    TensorFile all{header(checksums), {}};
    for (const auto& [name, t] : all.header.tensors) all.tensors[name] = tensor(all.header, name);
    return all;
  }

 private:
  FileHeader parsed() {
    const std::uint64_t size = file_->size();
    std::uint64_t length = 0;
    if (size < 8) bad("the file ends within the header's length", size);
    file_->read(0, &length, 8);
    if (length > size - 8 || length > longest_header)
      bad("the header's length is " + std::to_string(length) + ", more than the file has", 0);
    std::string text(length, '\0');
    file_->read(8, text.data(), length);
    try {
      return HeaderReader::read(text, size);
    } catch (const Json::Bad& wrong) {
      bad(wrong.what, wrong.offset);
    }
  }
  std::uint32_t read(const std::string& name, const at::Tensor& t, std::uint64_t begin) {
    auto to = static_cast<unsigned char*>(t.mutable_data_ptr());
    const std::size_t size = t.nbytes();
    std::uint32_t crc = 0;
    for (std::size_t at = 0; at < size; at += portion) {
      const std::size_t n = std::min(portion, size - at);
      file_->read(begin + at, to + at, n);
      crc = crc32(crc, to + at, n);
      if (t.scalar_type() == at::kBool &&
          std::any_of(to + at, to + at + n, [](auto c) { return c > 1; }))
        bad("`" + name + "`: a byte of BOOL is neither 0 nor 1", begin + at);
    }
    return crc;
  }
  [[noreturn]] void bad(const std::string& what, std::uint64_t offset) const {
    throw BadFile("load: `" + path_.string() + "` is damaged, or no file of tensors, at byte " +
                  std::to_string(offset) + ": " + shown(what) +
                  ". Take another copy or an earlier state.");
  }

  Files::Path path_;
  std::unique_ptr<InputFile> file_;
};

}  // namespace detail

using detail::TensorFileReader;

}  // namespace ikebana
