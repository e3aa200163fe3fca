#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/files/number_text.hpp>
#include <ikebana/files/table.hpp>
#include <unordered_map>
#include <unordered_set>

namespace ikebana {
namespace detail {

inline std::string dtype_text(at::ScalarType type) { return c10::toString(type); }

/// Returns the first row whose value changes when it is cast to `dtype`; -1 if no row does. For a
/// floating dtype, that is a finite number which becomes an infinity.
inline std::int64_t first_changed(const at::Tensor& values, const at::Tensor& cast) {
  at::Tensor changed;
  if (cast.is_floating_point()) {
    if (!values.is_floating_point() && cast.scalar_type() != at::kHalf) return -1;
    changed = cast.isinf().logical_and_(values.isinf().logical_not_());
  } else {
    changed = cast.to(values.scalar_type()).ne(values);
  }
  if (!changed.any().item<bool>()) return -1;
  return changed.to(at::kByte).argmax().item<std::int64_t>();
}

}  // namespace detail

IKEBANA_INLINE Table::Table(std::string source, std::vector<detail::TableColumn> columns)
    : source_(std::move(source)),
      columns_(std::make_shared<const std::vector<detail::TableColumn>>(std::move(columns))) {
  if (!columns_->empty()) rows_ = columns_->front().size();
  for (std::size_t i = 0; i < columns_->size(); ++i) {
    const auto& column = (*columns_)[i];
    if (column.size() != rows_)
      throw BadFile(source_ + ": column `" + column.name + "` has " +
                    std::to_string(column.size()) + " rows, and the first column has " +
                    std::to_string(rows_) + ". Columns of a table must have equal lengths.");
    for (std::size_t j = 0; j < i; ++j)
      if ((*columns_)[j].name == column.name)
        throw BadFile(source_ + ": two columns are named `" + column.name +
                      "`. Rename one of them in the file.");
  }
}

IKEBANA_INLINE std::vector<std::string> Table::names() const {
  std::vector<std::string> names;
  for (const auto& column : *columns_) names.push_back(column.name);
  return names;
}

IKEBANA_INLINE bool Table::has(const std::string& name) const {
  return std::any_of(columns_->begin(), columns_->end(),
                     [&](const auto& column) { return column.name == name; });
}

IKEBANA_INLINE ColumnType Table::type(const std::string& name) const {
  const auto& found = column(name);
  return found.values.defined() ? ColumnType(found.values.scalar_type()) : ColumnType::text();
}

IKEBANA_INLINE void Table::fail(const std::string& name, const std::string& what) const {
  throw BadValue(source_ + ", column `" + detail::escaped(name) + "`: " + what);
}

IKEBANA_INLINE const detail::TableColumn& Table::column(const std::string& name) const {
  for (const auto& column : *columns_)
    if (column.name == name) return column;
  throw BadValue(source_ + ": no column has this name" + detail::nearest_names({name}, names()) +
                 ". Correct the name, or read the column (usecols).");
}

IKEBANA_INLINE at::Tensor Table::operator[](const std::string& name) const {
  const auto& found = column(name);
  if (!found.values.defined())
    fail(name, "it is text" + (found.why_text.empty() ? "" : ", because " + found.why_text) +
                   ". Correct the file, name the text as missing (na_values), or take "
                   "categories(\"" +
                   name + "\").codes.");
  return found.values;
}

IKEBANA_INLINE std::string Table::spelled(const detail::TableColumn& column,
                                          std::int64_t row) const {
  if (!column.values.defined()) return detail::quoted_value(column.texts.at(row));
  const at::Tensor value = column.values[row];
  return value.is_floating_point() ? detail::exact_text(value.item<double>())
                                   : std::to_string(value.item<std::int64_t>());
}

IKEBANA_INLINE at::Tensor Table::tensor(const std::vector<std::string>& names,
                                        at::ScalarType dtype) const {
  const auto width = static_cast<std::int64_t>(names.size());
  at::Tensor all = at::empty({rows_, width}, dtype);
  for (std::int64_t i = 0; i < width; ++i) {
    const std::string& name = names[static_cast<std::size_t>(i)];
    const at::Tensor values = (*this)[name], cast = values.to(dtype);
    if (const std::int64_t row = detail::first_changed(values, cast); row >= 0)
      fail(name, "row " + std::to_string(row) + " (counted from 0) is " +
                     spelled(column(name), row) + ", which " + detail::dtype_text(dtype) +
                     " cannot hold. Ask for at::kDouble, or fill the missing values first.");
    all.select(1, i).copy_(cast);
  }
  return all;
}

IKEBANA_INLINE std::vector<std::string> Table::text(const std::string& name) const {
  const auto& found = column(name);
  if (found.values.defined())
    fail(name, "it is " + detail::dtype_text(found.values.scalar_type()) +
                   ", and its texts were not kept. Read it as text: "
                   ".dtype = {{\"" +
                   name + "\", ColumnType::text()}}.");
  std::vector<std::string> texts;
  texts.reserve(static_cast<std::size_t>(rows_));
  for (std::int64_t row = 0; row < rows_; ++row) texts.emplace_back(found.texts.at(row));
  return texts;
}

IKEBANA_INLINE at::Tensor Table::missing(const std::string& name) const {
  const auto& found = column(name);
  if (found.values.defined()) return found.values.isnan();
  at::Tensor missing = at::zeros({rows_}, at::kBool);
  auto* to = missing.mutable_data_ptr<bool>();
  for (const std::int64_t row : found.texts.missing) to[row] = true;
  return missing;
}

IKEBANA_INLINE std::vector<std::string> Table::categories_of(const detail::TableColumn& column,
                                                             bool sort) const {
  std::vector<std::string> names;
  if (column.values.defined()) {
    const at::Tensor longs = column.values.to(at::kLong).contiguous();
    const auto* values = static_cast<const std::int64_t*>(longs.const_data_ptr());
    std::unordered_set<std::int64_t> seen;
    std::vector<std::int64_t> different;
    for (std::int64_t row = 0; row < rows_; ++row)
      if (seen.insert(values[row]).second) different.push_back(values[row]);
    if (sort) std::sort(different.begin(), different.end());
    for (const std::int64_t value : different) names.push_back(std::to_string(value));
    return names;
  }
  std::unordered_set<std::string_view> seen;
  auto missing = column.texts.missing.begin();
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (missing != column.texts.missing.end() && *missing == row) ++missing;
    else if (seen.insert(column.texts.at(row)).second) names.emplace_back(column.texts.at(row));
  }
  if (sort) std::sort(names.begin(), names.end());
  return names;
}

IKEBANA_INLINE Categories Table::categories(const std::string& name,
                                            const CategoriesOptions& options) const {
  const auto& found = column(name);
  const bool is_text = !found.values.defined();
  if (!is_text && found.values.is_floating_point())
    fail(name, "it is " + detail::dtype_text(found.values.scalar_type()) +
                   ", and categories are texts or integers. Read it as text (dtype), or divide "
                   "its range by at::bucketize.");
  Categories all{at::empty({rows_}, at::kLong),
                 options.names.empty() ? categories_of(found, options.sort) : options.names};
  std::unordered_map<std::string_view, std::int64_t> code_of;
  for (const auto& category : all.names)
    if (!code_of.emplace(category, std::int64_t(code_of.size())).second)
      fail(name, "two of the given categories are " + detail::quoted_value(category) +
                     ". Give each once.");
  auto* codes = all.codes.mutable_data_ptr<std::int64_t>();
  const at::Tensor longs = is_text ? at::Tensor() : found.values.to(at::kLong).contiguous();
  const auto* integers =
      is_text ? nullptr : static_cast<const std::int64_t*>(longs.const_data_ptr());
  auto missing = found.texts.missing.begin();
  std::string integer;
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (missing != found.texts.missing.end() && *missing == row) {
      codes[row] = -1, ++missing;
      continue;
    }
    if (!is_text) integer = std::to_string(integers[row]);
    const auto code = code_of.find(is_text ? found.texts.at(row) : integer);
    if (code == code_of.end())
      fail(name, "row " + std::to_string(row) + " (counted from 0) is " + spelled(found, row) +
                     ", which is none of the " + std::to_string(all.names.size()) +
                     " given categories. Add it to their names before training.");
    codes[row] = code->second;
  }
  return all;
}

IKEBANA_INLINE std::string Table::describe() const {
  std::string text = source_ + ": " + std::to_string(rows_) + " rows";
  for (const auto& column : *columns_) {
    text += "\n  " + column.name + "  " +
            (column.values.defined() ? detail::dtype_text(column.values.scalar_type()) : "text");
    const auto count = missing(column.name).sum().item<std::int64_t>();
    if (count > 0) text += ", " + std::to_string(count) + " missing";
    if (column.is_mixed) text += " (" + column.why_text + ")";
  }
  return text;
}

}  // namespace ikebana
