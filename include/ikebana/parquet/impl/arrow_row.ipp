#pragma once
#include <ikebana/parquet/impl/arrow_files.ipp>

namespace ikebana {
namespace detail {

/// A part of an array of numbers.
struct ArrowRange {
  std::shared_ptr<arrow::Array> array;
  std::int64_t begin = 0, length = 0;
  bool is_list = false;
};

/// Returns the elements of a list, or the one element of a column of numbers; no array for other
/// types, and a length below 0 if the list is damaged.
inline ArrowRange range_of_cell(const ArrowFiles::Cell& cell) {
  auto in_values = [&](const auto& list) {
    return ArrowRange{list.values(), list.value_offset(cell.row), list.value_length(cell.row),
                      true};
  };
  switch (cell.array->type_id()) {
    case arrow::Type::LIST:
      return in_values(static_cast<const arrow::ListArray&>(*cell.array));
    case arrow::Type::LARGE_LIST:
      return in_values(static_cast<const arrow::LargeListArray&>(*cell.array));
    case arrow::Type::FIXED_SIZE_LIST:
      return in_values(static_cast<const arrow::FixedSizeListArray&>(*cell.array));
    default:
      return {cell.array, cell.row, 1, false};
  }
}

[[noreturn]] inline void fail_type(const ArrowFiles::Cell& cell, const char* wanted) {
  throw BadValue(cell.where + "its type is " + cell.array->type()->ToString() + ", and no " +
                 wanted + ". Convert the column, or use another.");
}

[[noreturn]] inline void fail_missing(const ArrowFiles::Cell& cell) {
  throw BadFile(cell.where + "the value is missing. Ask `missing` first, or leave the row out.");
}

inline at::Tensor tensor_of_cell(const ArrowFiles::Cell& cell) {
  const ArrowRange range = range_of_cell(cell);
  const at::ScalarType dtype = wide_dtype_of(range.array->type_id());
  if (dtype == at::ScalarType::Undefined) fail_type(cell, "number or list of numbers");
  const bool is_real = at::isFloatingType(dtype);
  if (cell.is_missing && (range.is_list || !is_real)) fail_missing(cell);
  if (range.begin < 0 || range.length < 0 || range.length > range.array->length() - range.begin)
    throw BadFile(cell.where + "the list is damaged. Write the file again.");
  at::Tensor values = at::empty({range.length}, dtype);
  if (copy_numbers(*range.array, range.begin, range.length, values.mutable_data_ptr()) >= 0)
    throw BadFile(cell.where + "an integer is beyond the range of Long. Store it as text.");
  const bool may_miss = cell.is_missing || range.array->null_count() > 0;
  for (std::int64_t i = 0; may_miss && i < range.length; ++i) {
    if (!cell.is_missing && range.array->IsValid(range.begin + i)) continue;
    if (!is_real) fail_missing(cell);
    values[i] = std::numeric_limits<double>::quiet_NaN();
  }
  return range.is_list ? values : values[0];
}

}  // namespace detail

at::Tensor ArrowRow::tensor(const std::string& column) const {
  return detail::tensor_of_cell(files_->cell(index_, column));
}

std::int64_t ArrowRow::integer(const std::string& column) const {
  const auto cell = files_->cell(index_, column);
  const at::ScalarType dtype = detail::wide_dtype_of(cell.array->type_id());
  if (!at::isIntegralType(dtype, /*includeBool=*/true)) detail::fail_type(cell, "integer");
  return detail::tensor_of_cell(cell).item<std::int64_t>();
}

std::string ArrowRow::text(const std::string& column) const {
  const auto cell = files_->cell(index_, column);
  if (!detail::is_text_type(*cell.array->type())) detail::fail_type(cell, "text");
  if (cell.is_missing) detail::fail_missing(cell);
  const auto text = detail::text_of(*cell.array, cell.row);
  if (!text) throw BadFile(cell.where + "the text is damaged. Write the file again.");
  return std::string(*text);
}

bool ArrowRow::missing(const std::string& column) const {
  return files_->cell(index_, column).is_missing;
}

}  // namespace ikebana
