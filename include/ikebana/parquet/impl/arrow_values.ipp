#pragma once
// Dtypes and values of Arrow's arrays.
#include <arrow/api.h>
#include <ikebana/detail/torch.hpp>
#include <ikebana/error.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace ikebana::detail {

/// Returns the value of a result. Throws BadFile for an error of Arrow.
template <class T>
T value_of_arrow(arrow::Result<T> result, const std::string& path) {
  if (!result.ok())
    throw BadFile("parquet: `" + path + "`: Arrow says: " + result.status().message() +
                  ". Write the file again.");
  return std::move(result).ValueUnsafe();
}
inline void check_arrow(const arrow::Status& status, const std::string& path) {
  if (!status.ok()) value_of_arrow(arrow::Result<int>(status), path);
}

/// Returns the dtype with the same elements as an Arrow type; Undefined if no dtype has.
inline at::ScalarType dtype_of(arrow::Type::type id) {
  switch (id) {
    case arrow::Type::INT8:
      return at::kChar;
    case arrow::Type::UINT8:
      return at::kByte;
    case arrow::Type::INT16:
      return at::kShort;
    case arrow::Type::INT32:
      return at::kInt;
    case arrow::Type::INT64:
      return at::kLong;
    case arrow::Type::HALF_FLOAT:
      return at::kHalf;
    case arrow::Type::FLOAT:
      return at::kFloat;
    case arrow::Type::DOUBLE:
      return at::kDouble;
    default:
      return at::ScalarType::Undefined;
  }
}
/// Returns the dtype that holds all values of an Arrow type of numbers; Undefined for other types.
inline at::ScalarType wide_dtype_of(arrow::Type::type id) {
  switch (id) {
    case arrow::Type::BOOL:
      return at::kBool;
    case arrow::Type::UINT16:
      return at::kInt;
    case arrow::Type::UINT32:
    case arrow::Type::UINT64:
      return at::kLong;
    default:
      return dtype_of(id);
  }
}

/// Copies the elements [begin, begin + n) of an array of numbers to `to`, of `wide_dtype_of`.
/// Returns the first element that it cannot hold, or -1. Missing elements are any value.
inline std::int64_t copy_numbers(const arrow::Array& array, std::int64_t begin, std::int64_t n,
                                 void* to) {
  const arrow::ArrayData& data = *array.data();
  const std::int64_t at = data.offset + begin;
  auto widen = [&]<class From, class To>(const From* from, To* values) -> std::int64_t {
    for (std::int64_t i = 0; i < n; ++i) {
      if constexpr (sizeof(From) == sizeof(To))
        if (from[at + i] > static_cast<From>(std::numeric_limits<To>::max()) &&
            array.IsValid(begin + i))
          return begin + i;
      values[i] = static_cast<To>(from[at + i]);
    }
    return -1;
  };
  const auto* bytes = data.buffers[1] ? data.buffers[1]->data() : nullptr;
  if (n == 0 || !bytes) return -1;
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      for (std::int64_t i = 0; i < n; ++i)
        static_cast<bool*>(to)[i] = (bytes[(at + i) / 8] >> ((at + i) % 8) & 1) != 0;
      return -1;
    case arrow::Type::UINT16:
      return widen(reinterpret_cast<const std::uint16_t*>(bytes), static_cast<std::int32_t*>(to));
    case arrow::Type::UINT32:
      return widen(reinterpret_cast<const std::uint32_t*>(bytes), static_cast<std::int64_t*>(to));
    case arrow::Type::UINT64:
      return widen(reinterpret_cast<const std::uint64_t*>(bytes), static_cast<std::int64_t*>(to));
    default: {
      const auto size = static_cast<std::int64_t>(c10::elementSize(dtype_of(array.type_id())));
      std::memcpy(to, bytes + at * size, static_cast<std::size_t>(n * size));
      return -1;
    }
  }
}

/// Returns the bytes of element i of an array of texts or bytes, or of a dictionary of these; none
/// if the array has another type or is damaged. The element is not missing.
inline std::optional<std::string_view> text_of(const arrow::Array& array, std::int64_t i) {
  auto in_buffer = [&](auto& texts) -> std::optional<std::string_view> {
    const std::int64_t begin = texts.value_offset(i), end = texts.value_offset(i + 1);
    const auto& buffer = texts.value_data();
    if (begin < 0 || begin > end || end > (buffer ? buffer->size() : 0)) return {};
    return texts.GetView(i);
  };
  switch (array.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return in_buffer(static_cast<const arrow::BinaryArray&>(array));
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return in_buffer(static_cast<const arrow::LargeBinaryArray&>(array));
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return static_cast<const arrow::BinaryViewArray&>(array).GetView(i);
    case arrow::Type::DICTIONARY: {
      const auto& dictionary = static_cast<const arrow::DictionaryArray&>(array);
      const std::int64_t at = dictionary.GetValueIndex(i);
      if (at < 0 || at >= dictionary.dictionary()->length() || dictionary.dictionary()->IsNull(at))
        return {};
      return text_of(*dictionary.dictionary(), at);
    }
    default:
      return {};
  }
}

/// Returns whether elements of this type are texts or bytes.
inline bool is_text_type(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return true;
    case arrow::Type::DICTIONARY:
      return is_text_type(*static_cast<const arrow::DictionaryType&>(type).value_type());
    default:
      return false;
  }
}

}  // namespace ikebana::detail
