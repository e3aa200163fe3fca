// Says what a file of tensors holds, checks it, and compares two.
//   ikebana-inspect FILE          a table, what the file says of itself, and whether it is whole
//   ikebana-inspect FILE OTHER    whether both hold the same, and what differs
// Ends with 0 where the file is whole or both are the same to the bit, 1 where not, 2 where there
// is nothing to look at.
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/state/tensor_reader.hpp>
#include <sstream>
using namespace ikebana;
using ikebana::detail::escaped;

using Path = std::filesystem::path;
const std::string checksum = "ikebana.crc32", type_key = "ikebana.dtype.";

/// A file, and its tensors when they are asked for.
struct Opened {
  explicit Opened(const Path& path) : reader(system_files(), path), header(reader.header()) {}

  at::Tensor tensor(const std::string& name) { return reader.tensor(header, name); }
  bool has(const std::string& name) const { return header.tensors.count(name) != 0; }
  bool has_checksums() const { return header.metadata.count(checksum) != 0; }
  /// A type that the format does not know has its name in the metadata; there its elements are
  /// bytes in one more dimension.
  std::string kind(const std::string& name) const {
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
    const bool several = value.find('\n') != value.npos;
    for (std::string line; std::getline(lines, line);)
      std::printf("%s%s", several ? "\n  " : " ", escaped(line).c_str());
    std::printf("\n");
  }
}

/// Prints each tensor of a file; gives how many are damaged.
int print_tensors(Opened& file) {
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
                file.kind(name).c_str(), static_cast<unsigned long long>(t.end - t.begin), state);
  }
  return damaged;
}

int inspect(const Path& path) {
  Opened file(path);
  const int damaged = print_tensors(file);
  std::uint64_t bytes = 0;
  for (const auto& [name, t] : file.header.tensors) bytes += t.end - t.begin;
  std::printf("%zu tensors, %llu bytes\n", file.header.tensors.size(),
              static_cast<unsigned long long>(bytes));
  print_metadata(file.header);
  if (damaged > 0) std::printf("%d tensors are damaged\n", damaged);
  else if (file.has_checksums()) std::printf("whole: every checksum is right\n");
  else std::printf("well-formed; it has no checksums to compare\n");
  return damaged > 0;
}

/// Which elements have other bits.
at::Tensor are_different(const at::Tensor& a, const at::Tensor& b) {
  const auto bytes_of = [](const at::Tensor& t) {
    return t.flatten().view(at::kByte).view({t.numel(), t.element_size()});
  };
  return bytes_of(a).ne(bytes_of(b)).any(1);
}
/// Of those elements; a text, since it may be not a number, or of a type that is none.
std::string largest_difference(const at::Tensor& a, const at::Tensor& b, const at::Tensor& of) try {
  const auto type = a.is_complex() ? at::kComplexDouble : at::kDouble;
  const auto apart = (a.to(type) - b.to(type)).abs().flatten().masked_select(of);
  const auto most = apart.max().item<double>();
  return std::isnan(most) ? ", some not by a number" : ", by " + c10::str(most) + " at most";
} catch (const c10::Error&) {
  return "";
}

/// What of a tensor differs; nothing where both are the same to the bit.
std::string difference(Opened& a, Opened& b, const std::string& name) {
  if (!a.has(name) || !b.has(name))
    return std::string("only in the ") + (a.has(name) ? "first: " : "second: ") +
           (a.has(name) ? a : b).kind(name);
  if (a.kind(name) != b.kind(name)) return a.kind(name) + " and " + b.kind(name);
  const at::Tensor x = a.tensor(name), y = b.tensor(name);
  if (x.numel() == 0) return "";
  const at::Tensor different = are_different(x, y);
  const auto count = different.sum().item<std::int64_t>();
  return count == 0 ? ""
                    : std::to_string(count) + " of " + std::to_string(x.numel()) + " elements" +
                          largest_difference(x, y, different);
}

int compare(const Path& one, const Path& other) {
  Opened a(one), b(other);
  std::set<std::string> names;
  for (const auto* header : {&a.header, &b.header})
    for (const auto& [name, t] : header->tensors) names.insert(name);
  std::size_t different = 0;
  for (const auto& name : names) {
    const std::string text = difference(a, b, name);
    if (!text.empty()) ++different, std::printf("%s: %s\n", escaped(name).c_str(), text.c_str());
  }
  if (different == 0) std::printf("%zu tensors, the same to the bit\n", names.size());
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
