#pragma once
// Defines the numbers and names of the `.pt2` format: its version, the paths in the archive, and
// what torch.export writes for LibTorch's dtypes, layouts and memory formats. Source:
// torch/_export/serde/schema.py, torch/csrc/export/pt2_archive_constants.h
#include <array>
#include <ikebana/detail/torch.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ikebana::detail::pt2 {

/// The version of the schema by which graphs are written. Another major number means another
/// layout, and a higher minor number means more fields.
inline constexpr std::int64_t schema_major = 8, schema_minor = 17;
/// The version of torch.utils._pytree's JSON, which describes how inputs and outputs are nested.
inline constexpr std::int64_t treespec_version = 1;

inline constexpr std::string_view format_path = "archive_format", format_value = "pt2";
inline constexpr std::string_view version_path = "archive_version", version_value = "0";
inline constexpr std::string_view byteorder_path = "byteorder", byteorder_value = "little";
inline constexpr std::string_view models_folder = "models/";
inline constexpr std::string_view weights_folder = "data/weights/";
inline constexpr std::string_view constants_folder = "data/constants/";
inline constexpr std::string_view samples_folder = "data/sample_inputs/";
inline constexpr std::string_view weight_prefix =
    "weight_";  // begins the names of files of weights
inline constexpr std::string_view constant_prefix =
    "tensor_";  // begins the names of files of constants

/// Returns the path of a model's graph in the archive.
inline std::string graph_path(std::string_view model) {
  return std::string(models_folder).append(model).append(".json");
}
inline std::string weights_config_path(std::string_view model) {
  return std::string(weights_folder).append(model).append("_weights_config.json");
}
inline std::string constants_config_path(std::string_view model) {
  return std::string(constants_folder).append(model).append("_constants_config.json");
}
inline std::string sample_inputs_path(std::string_view model) {
  return std::string(samples_folder).append(model).append(".pt");
}

/// A number of the schema and what it stands for in LibTorch.
template <class T>
using Numbered = std::pair<std::int64_t, T>;

inline constexpr auto dtypes = std::to_array<Numbered<c10::ScalarType>>({
    {1, c10::ScalarType::Byte},
    {2, c10::ScalarType::Char},
    {3, c10::ScalarType::Short},
    {4, c10::ScalarType::Int},
    {5, c10::ScalarType::Long},
    {6, c10::ScalarType::Half},
    {7, c10::ScalarType::Float},
    {8, c10::ScalarType::Double},
    {9, c10::ScalarType::ComplexHalf},
    {10, c10::ScalarType::ComplexFloat},
    {11, c10::ScalarType::ComplexDouble},
    {12, c10::kBool},
    {13, c10::ScalarType::BFloat16},
    {28, c10::ScalarType::UInt16},
    {29, c10::ScalarType::Float8_e4m3fn},
    {30, c10::ScalarType::Float8_e5m2},
    {31, c10::ScalarType::Float8_e4m3fnuz},
    {32, c10::ScalarType::Float8_e5m2fnuz},
});
inline constexpr auto layouts = std::to_array<Numbered<c10::Layout>>({
    {1, c10::Layout::Sparse},
    {2, c10::Layout::SparseCsr},
    {3, c10::Layout::SparseCsc},
    {4, c10::Layout::SparseBsr},
    {5, c10::Layout::SparseBsc},
    {6, c10::Layout::Mkldnn},
    {7, c10::Layout::Strided},
});
inline constexpr auto memory_formats = std::to_array<Numbered<c10::MemoryFormat>>({
    {1, c10::MemoryFormat::Contiguous},
    {2, c10::MemoryFormat::ChannelsLast},
    {3, c10::MemoryFormat::ChannelsLast3d},
    {4, c10::MemoryFormat::Preserve},
});

/// Returns the value with a number of the schema, or no value if the number is unknown.
template <class T, std::size_t n>
constexpr std::optional<T> of_number(const std::array<Numbered<T>, n>& table, std::int64_t number) {
  for (const auto& [known, value] : table)
    if (known == number) return value;
  return {};
}
/// Returns the schema's number for a value, or no value if the schema has no number for it, as for
/// `UInt32`.
template <class T, std::size_t n>
constexpr std::optional<std::int64_t> number_of(const std::array<Numbered<T>, n>& table, T value) {
  for (const auto& [number, known] : table)
    if (known == value) return number;
  return {};
}

}  // namespace ikebana::detail::pt2
