#pragma once
// Tensors as a file that Python reads: the length of a JSON header, the header, the tensors' bytes.
// Source: the format's own page, github.com/huggingface/safetensors.
#include <torch/torch.h>

#include <array>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
using Metadata = std::vector<std::pair<std::string, std::string>>;

inline const char* safetensors_type(at::ScalarType type) {
  static const std::map<at::ScalarType, const char*> names = {
      {at::kDouble, "F64"}, {at::kFloat, "F32"}, {at::kBFloat16, "BF16"}, {at::kHalf, "F16"},
      {at::kLong, "I64"},   {at::kInt, "I32"},   {at::kShort, "I16"},     {at::kChar, "I8"},
      {at::kByte, "U8"},    {at::kBool, "BOOL"}};
  auto found = names.find(type);
  if (found != names.end()) return found->second;
  throw std::runtime_error(std::string("safetensors: there is no name for ") + c10::toString(type));
}

inline std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

/// The header, padded so that the first tensor begins at a multiple of 8 bytes.
inline std::string safetensors_header(const NamedTensors& tensors, const Metadata& metadata) {
  std::string header = "{\"__metadata__\":{";
  for (const auto& [key, value] : metadata)
    header += (header.back() == '{' ? "" : ",") + quoted(key) + ":" + quoted(value);
  header += '}';
  std::size_t begin = 0;
  for (const auto& [name, t] : tensors) {
    std::size_t end = begin + t.nbytes();
    header += "," + quoted(name) + ":{\"dtype\":\"" + safetensors_type(t.scalar_type()) +
              "\",\"shape\":[" + c10::Join(",", t.sizes()) + "],\"data_offsets\":[" +
              std::to_string(begin) + "," + std::to_string(end) + "]}";
    begin = end;
  }
  header += '}';
  header.resize((header.size() + 7) / 8 * 8, ' ');
  return header;
}

/// Writes CPU tensors and strings, of which `"` and `\` may be a part. Throws where it cannot.
inline void write_safetensors(const std::string& path, const NamedTensors& tensors,
                              const Metadata& metadata = {}) {
  std::ofstream file(path, std::ios::binary);
  std::string header = safetensors_header(tensors, metadata);
  for (std::size_t i = 0, length = header.size(); i < 8; ++i, length >>= 8)
    file.put(static_cast<char>(length & 0xff));
  file << header;
  for (const auto& [name, t] : tensors) {
    at::Tensor dense = t.detach().contiguous();
    file.write(static_cast<const char*>(dense.const_data_ptr()),
               static_cast<std::streamsize>(dense.nbytes()));
  }
  if (!file.flush()) throw std::runtime_error("safetensors: cannot write " + path);
}
