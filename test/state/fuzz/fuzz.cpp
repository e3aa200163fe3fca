// For libFuzzer: reads the bytes of a safetensors file. No header may crash the reader; an accepted
// header is consistent, and the same after it is written and read again. An empty corpus folder is
// filled with seeds.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ikebana/state/files/json_writer.hpp>
#include <ikebana/state/files/safetensors_format.hpp>

using ikebana::FileHeader;
using ikebana::detail::HeaderReader;
using ikebana::detail::Json;
using ikebana::detail::JsonWriter;

// This is libFuzzer's default mutation.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

constexpr std::string_view crc_mark = "\"ikebana.crc32\":\"";

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

/// Returns the offset of the header's checksum. A quote within a name follows a backslash.
std::size_t digits_of(const std::string& text) {
  std::size_t mark = text.find(crc_mark);
  while (mark != text.npos && mark > 0 && text[mark - 1] == '\\')
    mark = text.find(crc_mark, mark + 1);
  return mark == text.npos ? mark : mark + crc_mark.size();
}

/// Returns a header's length, the header with its checksum, and bytes for tensors.
std::string with_length(std::string text, const std::string& data) {
  if (const auto digits = digits_of(text); digits != text.npos && digits + 8 <= text.size())
    text.replace(digits, 8, ikebana::detail::hex8(HeaderReader::checksum(text, digits)));
  const std::uint64_t size = text.size();
  return std::string(reinterpret_cast<const char*>(&size), 8) + text + data;
}

std::string text_of(const FileHeader& header) {
  JsonWriter json;
  json.object([&] {
    json.object("__metadata__", [&] {
      for (const auto& [key, value] : header.metadata) json.member(key, value);
    });
    for (const auto& item : header.tensors)
      json.object(item.first, [&] {
        const ikebana::FileTensor& t = item.second;
        json.member("dtype", t.dtype);
        json.member("shape", t.shape);
        json.member("data_offsets", std::array{t.begin, t.end});
      });
  });
  return std::move(json).text();
}

FileHeader header_of(const std::string& file) {
  std::uint64_t length = 0;
  if (file.size() < 8) throw Json::ParseError{"too short", file.size()};
  file.copy(reinterpret_cast<char*>(&length), 8);
  if (length > file.size() - 8) throw Json::ParseError{"too long", 0};
  return HeaderReader::read(std::string_view(file).substr(8, length), file.size());
}

void check(const FileHeader& header, std::uint64_t size) {
  std::uint64_t all = 0;
  for (const auto& [name, t] : header.tensors) {
    __uint128_t bytes = ikebana::detail::bytes_of_type(t.dtype);
    require(bytes > 0, "an unknown dtype");
    for (const std::int64_t dim : t.shape) {
      require(dim >= 0, "a negative size");
      bytes *= static_cast<__uint128_t>(dim);
      require(bytes <= size, "a tensor larger than the file");
    }
    require(t.begin <= t.end && bytes == t.end - t.begin, "offsets that do not fit the shape");
    require(header.data <= size && t.end <= size - header.data, "offsets behind the end");
    all += t.end - t.begin;
  }
  require(header.data + all == size, "tensors that leave a gap or overlap");
}

void check_again(const FileHeader& header, const std::string& data) {
  FileHeader again;
  try {
    again = header_of(with_length(text_of(header), data));
  } catch (const Json::ParseError&) {
    require(false, "rejected when written again");
  }
  require(again.tensors.size() == header.tensors.size(), "tensors lost when written again");
  for (const auto& [name, t] : header.tensors) {
    const auto found = again.tensors.find(name);
    require(found != again.tensors.end() && found->second.dtype == t.dtype &&
                found->second.shape == t.shape && found->second.begin == t.begin &&
                found->second.end == t.end,
            "a tensor is another when written again");
  }
  for (const auto& [key, value] : header.metadata) {
    const auto found = again.metadata.find(key);
    require(found != again.metadata.end() &&
                (key == ikebana::detail::crc_key || found->second == value),
            "metadata are others when written again");
  }
}

/// Reads the text as an index of weights.
void skip_values(const std::string& text) {
  Json json(text, 0);
  try {
    json.object("a text", [&](const std::string& key) {
      require(Json::excerpt(key).size() < 1000, "an excerpt is long");
      json.skip_value();
    });
  } catch (const Json::ParseError& error) {
    require(error.offset <= text.size(), "an error behind the end");
  }
}

const char* const seeds[] = {
    "{}",
    R"({"__metadata__":{"format":"pt"}})",
    R"({"__metadata__":{"ikebana.crc32":"00000000"},
"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
    R"({"a\u00e9\ud83d\ude00":{"dtype":"U8","shape":[0,3],"data_offsets":[0,0]}}   )",
    R"({"__metadata__":{"ikebana.crc32":"00000000","ikebana.crc32.b":"00000000",
"ikebana.dtype.b":"ComplexDouble"}, "b" : {"shape":[1,8],"data_offsets":[0,8],"dtype":"U8"}})",
    R"({"__metadata__":{"a\"ikebana.crc32":"00000000","ikebana.crc32":"00000000"}})",
    R"({"weight_map":{"a":"model-1.safetensors"},"metadata":{"total_size":[1.5e3,null,true]}})"};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  const std::filesystem::path folder = (*argv)[*argc - 1];
  if (*argc < 2 || !std::filesystem::is_directory(folder) || !std::filesystem::is_empty(folder))
    return 0;
  for (std::size_t i = 0; i < std::size(seeds); ++i)
    std::ofstream(folder / std::to_string(i), std::ios::binary)
        << with_length(seeds[i], std::string(i == 2 || i == 4 ? 8 : 0, 'x'));
  return 0;
}

/// Half of the mutations get a correct length and checksum; few others would pass these checks.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 2 == 0 || size <= 8) return size;
  const std::string file(reinterpret_cast<const char*>(data) + 8, size - 8);
  const std::size_t end = std::min(file.find_last_of('}'), file.size() - 1) + 1;
  const std::string fixed = with_length(file.substr(0, end), file.substr(end));
  fixed.copy(reinterpret_cast<char*>(data), fixed.size());
  return fixed.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string file(reinterpret_cast<const char*>(data), size);
  skip_values(file.substr(std::min<std::size_t>(8, size)));
  FileHeader header;
  try {
    header = header_of(file);
  } catch (const Json::ParseError& error) {
    require(error.offset <= size && !error.what.empty(), "an error without an offset");
    return 0;
  }
  check(header, size);
  check_again(header, file.substr(header.data));
  return 0;
}
