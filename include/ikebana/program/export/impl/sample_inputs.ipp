#pragma once
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/program/export/sample_inputs.hpp>
#include <ikebana/state/files/zip_writer.hpp>

namespace ikebana::detail::exported {

/// A file in memory.
class MemoryFile : public OutputFile {
 public:
  explicit MemoryFile(std::uint64_t size) : bytes_(static_cast<std::size_t>(size), '\0') {}
  void write(std::uint64_t offset, const void* bytes, std::size_t n) override {
    if (n > 0) std::memcpy(bytes_.data() + offset, bytes, n);
  }
  void sync() override {}
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Writes a pickle of protocol 2 with tensors, whose bytes it collects.
class TensorPickle {
 public:
  std::vector<at::Tensor> tensors;

  std::string write(const Nested& tree) {
    bytes_ = "\x80\x02";
    value(tree);
    return std::move(bytes_ += '.');
  }

 private:
  void value(const Nested& tree) {
    switch (tree.kind) {
      case Nested::Kind::Tensor:
        return tensor(tree.tensor);
      case Nested::Kind::Nothing:
        bytes_ += 'N';
        return;
      case Nested::Kind::Tuple:
        bytes_ += '(';
        for (const Nested& child : tree.children) value(child);
        bytes_ += 't';
        return;
      case Nested::Kind::List:
        bytes_ += "](";
        for (const Nested& child : tree.children) value(child);
        bytes_ += 'e';
        return;
      case Nested::Kind::Dict:
        bytes_ += "}(";
        for (std::size_t i = 0; i < tree.children.size(); ++i)
          text(tree.keys[i]), value(tree.children[i]);
        bytes_ += 'u';
    }
  }
  void tensor(const at::Tensor& given) {
    tensors.push_back(given.detach().to(at::kCPU).contiguous());
    const at::Tensor& t = tensors.back();
    const std::string type = storage_type(t.scalar_type());
    bytes_ += type.empty() ? "ctorch._utils\n_rebuild_tensor_v3\n(("
                           : "ctorch._utils\n_rebuild_tensor_v2\n((";
    text("storage");
    bytes_ += type.empty() ? "ctorch.storage\nUntypedStorage\n" : "ctorch\n" + type + "\n";
    text(std::to_string(tensors.size() - 1));
    text("cpu");
    integer(type.empty() ? static_cast<std::int64_t>(t.nbytes()) : t.numel());
    bytes_ += "tQ";
    integer(0), integers(t.sizes()), integers(t.strides());
    bytes_ +=
        "\x89"
        "ccollections\nOrderedDict\n)R";
    if (type.empty()) bytes_ += "ctorch\n" + dtype_name(t.scalar_type()) + "\n";
    bytes_ += "tR";
  }
  /// Returns the name of a storage of this dtype, or an empty text for newer dtypes, which have no
  /// name.
  static std::string storage_type(c10::ScalarType type) {
    const bool is_old = type <= at::kComplexDouble || type == at::kBool || type == at::kBFloat16;
    return is_old && type != at::kComplexHalf ? std::string(c10::toString(type)) + "Storage" : "";
  }
  static std::string dtype_name(c10::ScalarType type) {
    std::string name = c10::toString(type);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return name == "complexhalf" ? "complex32" : name;
  }
  void integers(at::IntArrayRef all) {
    bytes_ += '(';
    for (const std::int64_t one : all) integer(one);
    bytes_ += 't';
  }
  void integer(std::int64_t value) { bytes_ += "\x8a\x08", little_endian(value, 8); }
  void text(const std::string& value) {
    bytes_ += 'X', little_endian(static_cast<std::int64_t>(value.size()), 4), bytes_ += value;
  }
  void little_endian(std::int64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_ += static_cast<char>(value >> (8 * i));
  }

  std::string bytes_;
};

IKEBANA_INLINE std::string torch_file(const Nested& tree) {
  TensorPickle pickle;
  ZipWriter zip("archive");
  zip.add("data.pkl", pickle.write(tree));
  for (std::size_t i = 0; i < pickle.tensors.size(); ++i) {
    const at::Tensor& t = pickle.tensors[i];
    zip.add("data/" + std::to_string(i), t.nbytes(), [t](const ZipWriter::Sink& sink) {
      if (t.nbytes() > 0) sink(t.const_data_ptr(), t.nbytes());
    });
  }
  zip.add("version", "3\n");
  zip.add("byteorder", "little");
  MemoryFile file(zip.size());
  zip.write(file);
  return file.take();
}

}  // namespace ikebana::detail::exported
