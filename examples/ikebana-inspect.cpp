// Prints the contents of a safetensors file and checks it, or compares two files.
//   ikebana-inspect FILE          a table of its tensors, its metadata, and whether it is intact
//   ikebana-inspect FILE OTHER    whether both hold the same bits, and what differs
// A state that several ranks saved is a file that names the others, which are read as well.
// Exit status: 0 if the file is intact or both are the same bit for bit, 1 if not, 2 if a file
// cannot be read.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/ranks/state_reader.hpp>
#include <set>
#include <sstream>
using namespace ikebana;
using ikebana::detail::escaped;
namespace detail = ikebana::detail;

using Path = std::filesystem::path;
const std::string checksum = "ikebana.crc32", type_key = "ikebana.dtype.";

/// An open file, which reads each tensor when it is asked for.
struct OpenFile {
  explicit OpenFile(const Path& path) : reader(system_files(), path), header(reader.header()) {}

  at::Tensor tensor(const std::string& name) { return reader.tensor(header, name); }
  bool has_checksums() const { return header.metadata.count(checksum) != 0; }
  /// Returns the dtype and shape of a tensor. A dtype that the format does not know is named in the
  /// metadata, and its elements are bytes in one more dimension.
  std::string dtype_and_shape(const std::string& name) const {
    FileTensor t = header.tensors.at(name);
    if (auto type = header.metadata.find(type_key + name); type != header.metadata.end()) {
      t.dtype = type->second;
      if (!t.shape.empty()) t.shape.pop_back();
    }
    return escaped(t.dtype) + " [" + c10::Join(", ", t.shape) + "]";
  }

  TensorFileReader reader;
  FileHeader header;
};

void print_metadata(const FileHeader& header) {
  for (const auto& [key, value] : header.metadata) {
    if (key.starts_with(checksum) || key.starts_with(type_key)) continue;
    std::istringstream lines(value);
    std::printf("%s:", escaped(key).c_str());
    const bool has_lines = value.find('\n') != value.npos;
    for (std::string line; std::getline(lines, line);)
      std::printf("%s%s", has_lines ? "\n  " : " ", escaped(line).c_str());
    std::printf("\n");
  }
}

/// Prints each tensor of a file. Returns how many are damaged.
int print_tensors(OpenFile& file) {
  int damaged = 0, width = 4;
  for (const auto& [name, t] : file.header.tensors)
    width = std::max(width, static_cast<int>(escaped(name).size()));
  for (const auto& [name, t] : file.header.tensors) {
    const char* state = file.has_checksums() ? "good" : "none";
    try {
      file.tensor(name);
    } catch (const BadFile&) {
      state = "DAMAGED", ++damaged;
    }
    std::printf("%-*s  %-28s %14llu bytes  checksum: %s\n", width, escaped(name).c_str(),
                file.dtype_and_shape(name).c_str(),
                static_cast<unsigned long long>(t.end - t.begin), state);
  }
  return damaged;
}

/// Also inspects each file of a state that several ranks saved.
int inspect(const Path& path) {
  OpenFile file(path);
  const int damaged = print_tensors(file);
  std::uint64_t bytes = 0;
  for (const auto& [name, t] : file.header.tensors) bytes += t.end - t.begin;
  std::printf("%zu tensors, %llu bytes\n", file.header.tensors.size(),
              static_cast<unsigned long long>(bytes));
  print_metadata(file.header);
  if (damaged > 0) std::printf("%d tensors are damaged\n", damaged);
  else if (file.has_checksums()) std::printf("intact: all checksums agree\n");
  else std::printf("well-formed; it has no checksums to compare\n");
  int status = damaged > 0;
  if (const auto files = detail::files_of(file.header, path))
    for (const detail::RankFile& of_rank : *files) {
      const Path beside = detail::folder_of(path) / of_rank.name;
      std::printf("\n%s\n", escaped(beside.string()).c_str());
      status |= inspect(beside);
    }
  return status;
}

/// Returns a mask of the elements whose bits differ.
at::Tensor elements_differ(const at::Tensor& a, const at::Tensor& b) {
  const auto bytes_of = [](const at::Tensor& t) {
    return t.flatten().view(at::kByte).view({t.numel(), t.element_size()});
  };
  return bytes_of(a).ne(bytes_of(b)).any(1);
}
/// Returns the largest difference among the elements of a mask, as text; empty for a dtype without
/// subtraction.
std::string largest_difference(const at::Tensor& a, const at::Tensor& b,
                               const at::Tensor& mask) try {
  const auto type = a.is_complex() ? at::kComplexDouble : at::kDouble;
  const auto differences = (a.to(type) - b.to(type)).abs().flatten().masked_select(mask);
  const auto largest = differences.max().item<double>();
  return std::isnan(largest) ? ", some by NaN" : ", by at most " + c10::str(largest);
} catch (const c10::Error&) {
  return "";
}

/// `F32 [3, 5]`
std::string text_of(const detail::StateReader::Layout& t) {
  const char* name = detail::name_of_type(t.type);
  return (name != nullptr ? name : c10::toString(t.type)) + std::string(" [") +
         c10::Join(", ", t.sizes) + "]";
}
/// Returns how a tensor that two states have differs; empty if both are equal bit for bit.
std::string difference(detail::StateReader& a, detail::StateReader& b, const std::string& name) {
  const std::string in_a = text_of(a.layout(name)), in_b = text_of(b.layout(name));
  if (in_a != in_b) return in_a + " and " + in_b;
  const at::Tensor x = a.read(name, 0, 1), y = b.read(name, 0, 1);
  if (x.numel() == 0) return "";
  const at::Tensor different = elements_differ(x, y);
  const auto count = different.sum().item<std::int64_t>();
  return count == 0 ? ""
                    : std::to_string(count) + " of " + std::to_string(x.numel()) + " elements" +
                          largest_difference(x, y, different);
}

/// Compares whole tensors, also if each of several ranks has saved some rows.
int compare(const Path& one, const Path& other) {
  detail::StateReader a(system_files(), one, /*require_checksums=*/false);
  detail::StateReader b(system_files(), other, /*require_checksums=*/false);
  const std::set<std::string> in_a = a.names(0, 1), in_b = b.names(0, 1);
  std::set<std::string> names = in_a;
  names.insert(in_b.begin(), in_b.end());
  std::size_t different = 0;
  for (const auto& name : names) {
    std::string text;
    if (!in_b.count(name)) text = "only in the first: " + text_of(a.layout(name));
    else if (!in_a.count(name)) text = "only in the second: " + text_of(b.layout(name));
    else text = difference(a, b, name);
    if (!text.empty()) ++different, std::printf("%s: %s\n", escaped(name).c_str(), text.c_str());
  }
  if (different == 0) std::printf("%zu tensors, the same bits\n", names.size());
  else std::printf("%zu of %zu tensors differ\n", different, names.size());
  return different > 0;
}

int main(int argc, char** argv) try {
  if (argc == 2) return inspect(argv[1]);
  if (argc == 3) return compare(argv[1], argv[2]);
  std::fprintf(stderr, "usage: ikebana-inspect FILE [OTHER]\n");
  return 2;
} catch (const BadFile& error) {
  std::printf("%s\n", error.what());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
