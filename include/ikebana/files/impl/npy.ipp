#pragma once
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/files/npy.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <limits>
#include <optional>
#include <string_view>

namespace ikebana::detail {

inline constexpr std::string_view npy_magic = "\x93NUMPY";

/// Numpy's name of a dtype, without the order of bytes.
struct NpyDtype {
  std::string_view name;
  at::ScalarType dtype;
};
inline constexpr std::array npy_dtypes{
    NpyDtype{"b1", at::kBool},         NpyDtype{"u1", at::kByte},
    NpyDtype{"i1", at::kChar},         NpyDtype{"u2", at::kUInt16},
    NpyDtype{"i2", at::kShort},        NpyDtype{"u4", at::kUInt32},
    NpyDtype{"i4", at::kInt},          NpyDtype{"u8", at::kUInt64},
    NpyDtype{"i8", at::kLong},         NpyDtype{"f2", at::kHalf},
    NpyDtype{"f4", at::kFloat},        NpyDtype{"f8", at::kDouble},
    NpyDtype{"c8", at::kComplexFloat}, NpyDtype{"c16", at::kComplexDouble}};

[[noreturn]] inline void throw_bad_npy(const std::filesystem::path& path, const std::string& why) {
  throw BadFile("npy: `" + path.string() + "` " + why);
}

/// Reads the header, which is the text of a Python dict with the keys descr, fortran_order and
/// shape.
class NpyHeaderText {
 public:
  NpyHeaderText(std::string_view text, const std::filesystem::path& path)
      : text_(text), path_(path) {}

  NpyHeader parse() {
    expect('{');
    while (!skip('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") read_dtype();
      else if (key == "fortran_order") header_.is_fortran = truth(), has_order_ = true;
      else if (key == "shape") read_shape();
      else fail();
      if (!skip(',')) {
        expect('}');
        break;
      }
    }
    if (!has_dtype_ || !has_order_ || !has_shape_) fail();
    return std::move(header_);
  }

 private:
  void read_dtype() {
    blank();
    if (at_ < text_.size() && text_[at_] == '[')
      throw_bad_npy(path_, "is a structured array. Save each field as an array of its own.");
    const std::string_view descr = quoted();
    has_dtype_ = true;
    for (const NpyDtype& known : npy_dtypes) {
      if (descr.size() < 2 || descr.substr(1) != known.name) continue;
      if (descr[0] == '>' && c10::elementSize(known.dtype) > 1)
        throw_bad_npy(path_, "has its bytes in big-endian order (" + std::string(descr) +
                                 "). Save array.astype(array.dtype.newbyteorder('<')).");
      header_.dtype = known.dtype;
      return;
    }
    throw_bad_npy(path_, "has the dtype " + std::string(descr) +
                             ", for which LibTorch has none. Save it as numbers.");
  }
  void read_shape() {
    expect('(');
    has_shape_ = true;
    while (!skip(')')) {
      blank();
      std::int64_t size = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) fail();
      at_ += static_cast<std::size_t>(end - begin);
      header_.shape.push_back(size);
      if (!skip(',')) {
        expect(')');
        break;
      }
    }
  }
  bool truth() {
    blank();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_, word.size()) == word) return at_ += word.size(), word == "True";
    fail();
  }
  std::string_view quoted() {
    blank();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail();
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail();
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }
  void blank() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool skip(char c) {
    blank();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    return ++at_, true;
  }
  void expect(char c) {
    if (!skip(c)) fail();
  }
  [[noreturn]] void fail() const {
    throw_bad_npy(path_, "has a damaged header (at character " + std::to_string(at_) +
                             " of its text). Write it again with numpy.save.");
  }

  std::string_view text_;
  const std::filesystem::path& path_;
  std::size_t at_ = 0;
  bool has_dtype_ = false, has_order_ = false, has_shape_ = false;
  NpyHeader header_;
};

/// Returns the product of sizes and `factor`, or no value if it is too large.
inline std::optional<std::int64_t> checked_product(const std::vector<std::int64_t>& sizes,
                                                   std::int64_t factor) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  for (const std::int64_t size : sizes) {
    if (size > std::numeric_limits<std::int64_t>::max() / factor) return std::nullopt;
    factor *= size;
  }
  return factor;
}

IKEBANA_INLINE std::int64_t NpyHeader::elements() const {
  return checked_product(shape, 1).value_or(0);
}

IKEBANA_INLINE bool is_npy(const FileMap& file) {
  return file.size() >= npy_magic.size() &&
         std::memcmp(file.read(0, npy_magic.size()), npy_magic.data(), npy_magic.size()) == 0;
}

IKEBANA_INLINE NpyHeader read_npy_header(const FileMap& file) {
  const std::filesystem::path& path = file.path();
  constexpr std::size_t least = 12;
  if (!is_npy(file) || file.size() < least)
    throw_bad_npy(path, "is no .npy file. Write it with numpy.save.");
  const auto* begin = reinterpret_cast<const unsigned char*>(file.read(0, least));
  if (begin[6] < 1 || begin[6] > 3)
    throw_bad_npy(path, "has version " + std::to_string(begin[6]) +
                            " of the format; 1 to 3 are known. Write it with numpy.save.");
  const std::size_t fixed = begin[6] == 1 ? 10 : 12;
  std::uint64_t length = begin[8] + 256u * begin[9];
  if (begin[6] > 1) length += (std::uint64_t{begin[10]} << 16) + (std::uint64_t{begin[11]} << 24);
  constexpr std::uint64_t longest = 1 << 20;
  if (length > longest || fixed + length > file.size())
    throw_bad_npy(path, "ends within its header. Write it again with numpy.save.");
  const std::string_view text(reinterpret_cast<const char*>(file.read(fixed, length)), length);
  NpyHeader header = NpyHeaderText(text, path).parse();
  header.data = fixed + length;
  const auto bytes =
      checked_product(header.shape, static_cast<std::int64_t>(c10::elementSize(header.dtype)));
  const std::uint64_t left = file.size() - header.data;
  if (!bytes || static_cast<std::uint64_t>(*bytes) != left)
    throw_bad_npy(path, "has " + std::to_string(left) + " bytes of elements, and its header says " +
                            (bytes ? std::to_string(*bytes) : "more than a file can have") +
                            ". It is cut off or damaged: write it again with numpy.save.");
  return header;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE at::Tensor read_npy(const std::filesystem::path& path) {
  const detail::FileMap file(path);
  const detail::NpyHeader header = detail::read_npy_header(file);
  std::vector<std::int64_t> sizes = header.shape;
  if (header.is_fortran) std::reverse(sizes.begin(), sizes.end());
  at::Tensor tensor = at::empty(sizes, header.dtype);
  if (tensor.nbytes() > 0)
    std::memcpy(tensor.mutable_data_ptr(), file.read(header.data, tensor.nbytes()),
                tensor.nbytes());
  if (!header.is_fortran) return tensor;
  std::vector<std::int64_t> order;
  for (std::int64_t d = tensor.dim() - 1; d >= 0; --d) order.push_back(d);
  return tensor.permute(order);
}

IKEBANA_INLINE void write_npy(const std::filesystem::path& path, const at::Tensor& tensor) {
  const auto known =
      std::find_if(detail::npy_dtypes.begin(), detail::npy_dtypes.end(),
                   [&](const auto& each) { return each.dtype == tensor.scalar_type(); });
  if (known == detail::npy_dtypes.end())
    throw BadValue("npy: numpy has no " + std::string(c10::toString(tensor.scalar_type())) +
                   ". Convert the tensor, for example to Float.");
  const at::Tensor host = tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous();
  std::string text = "{'descr': '" + std::string(c10::elementSize(known->dtype) == 1 ? "|" : "<") +
                     std::string(known->name) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t size : host.sizes()) text += std::to_string(size) + ", ";
  text += "), }";
  constexpr std::size_t fixed = 10, alignment = 64;
  text.append(alignment - (fixed + text.size() + 1) % alignment, ' ').push_back('\n');
  std::string bytes(detail::npy_magic);
  bytes += {1, 0, static_cast<char>(text.size() % 256), static_cast<char>(text.size() / 256)};
  bytes += text;
  Files& files = system_files();
  detail::write_durably(
      files, path, bytes.size() + host.nbytes(),
      [&](OutputFile& file) {
        file.write(0, bytes.data(), bytes.size());
        file.write(bytes.size(), host.const_data_ptr(), host.nbytes());
      },
      [](const Files::Path&) { return true; });
}

IKEBANA_INLINE NpyRows::NpyRows(std::filesystem::path path)
    : file_(std::make_shared<detail::FileMap>(std::move(path))),
      header_(detail::read_npy_header(*file_)) {
  if (header_.shape.empty())
    detail::throw_bad_npy(file_->path(), "is one number, which has no rows. Save an array.");
  if (header_.is_fortran && header_.shape.size() > 1)
    detail::throw_bad_npy(file_->path(),
                          "is in Fortran order, in which rows do not lie together. Save "
                          "numpy.ascontiguousarray(array).");
  row_bytes_ = header_.shape[0] == 0
                   ? 0
                   : static_cast<std::size_t>(header_.elements() / header_.shape[0]) *
                         c10::elementSize(header_.dtype);
}

IKEBANA_INLINE void NpyRows::read(std::int64_t index, void* to) const {
  if (index < 0 || index >= size())
    throw BadValue("NpyRows: there is no row " + std::to_string(index) + "; `" +
                   file_->path().string() + "` has " + std::to_string(size()) + ". Count from 0.");
  if (row_bytes_ == 0) return;
  const auto at = header_.data + static_cast<std::uint64_t>(index) * row_bytes_;
  std::memcpy(to, file_->read(at, row_bytes_), row_bytes_);
}

IKEBANA_INLINE at::Tensor NpyRows::get(std::int64_t index) const {
  at::Tensor row = at::empty(at::IntArrayRef(header_.shape).slice(1), header_.dtype);
  return read(index, row.mutable_data_ptr()), row;
}

IKEBANA_INLINE at::Tensor NpyRows::get_batch(const at::Tensor& indices) const {
  const std::int64_t* index = detail::index_data("NpyRows", indices);
  std::vector<std::int64_t> sizes = header_.shape;
  sizes[0] = indices.numel();
  at::Tensor rows = at::empty(sizes, header_.dtype);
  auto* to = static_cast<char*>(rows.mutable_data_ptr());
  for (std::int64_t i = 0; i < indices.numel(); ++i, to += row_bytes_) read(index[i], to);
  return rows;
}

}  // namespace ikebana
