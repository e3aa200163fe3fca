#pragma once
// The header of a csv file, and the names and types of its columns.
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/error.hpp>
#include <ikebana/files/csv_reader.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void CsvReader::check_options() const {
  auto fail_option = [](const std::string& what) { throw BadValue("read_csv: " + what); };
  const char sep = options_.sep, quote = options_.quotechar, decimal = options_.decimal;
  for (const char c : {sep, quote, decimal})
    if (c == '\n' || c == '\r' || (c >= '0' && c <= '9'))
      fail_option("sep, quotechar and decimal are no line breaks and no digits; one of them is " +
                  quoted_value(std::string_view(&c, 1)) + ". Change it.");
  if (sep == quote || sep == decimal || quote == decimal || sep == '\0' || decimal == '\0')
    fail_option(
        "sep, quotechar and decimal must differ, and sep and decimal must be given. A file whose "
        "decimal point is a comma has another separator, such as ';'.");
  if (options_.skiprows < 0 || options_.nrows.value_or(0) < 0)
    fail_option("skiprows and nrows count lines and rows; they must be 0 or more.");
  constexpr at::ScalarType known[] = {at::kBool, at::kByte, at::kChar,  at::kShort,  at::kInt,
                                      at::kLong, at::kHalf, at::kFloat, at::kDouble, at::kBFloat16};
  for (const auto& [name, type] : options_.dtype)
    if (!type.is_text() &&
        std::find(std::begin(known), std::end(known), type.scalar_type) == std::end(known))
      fail_option("dtype of column `" + name + "` is " + c10::toString(type.scalar_type) +
                  ". Name Bool, an integer of up to 64 bits with sign or Byte, a floating dtype of "
                  "16 bits or more, or ColumnType::text().");
}

IKEBANA_INLINE void CsvReader::fail_fields(std::int64_t line, const char* row) const {
  auto* reader = const_cast<CsvReader*>(this);  // it is not used after an error
  reader->line_ = line;
  const std::size_t count = reader->texts_of_row(row).size();
  std::string sep(1, options_.sep);
  fail(line, " has " + std::to_string(count) + (count == 1 ? " field" : " fields") +
                 ", and the table has " + std::to_string(columns_.size()) +
                 (columns_.size() == 1 ? " column" : " columns") +
                 ". Quote fields that contain the separator " + quoted_value(sep) +
                 ", or set `sep`.");
}

IKEBANA_INLINE std::vector<std::string> CsvReader::column_names(std::vector<std::string> header,
                                                                bool is_header) const {
  const std::size_t count = header.size();
  if (!options_.names.empty()) {
    if (options_.names.size() != count)
      throw BadValue("read_csv: " + std::to_string(options_.names.size()) +
                     " names are given, and `" + path_.string() + "` has " + std::to_string(count) +
                     " columns. Name all of them; `usecols` chooses the columns to read.");
    return options_.names;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!is_header) header[i] = std::to_string(i);
    else if (header[i].empty()) header[i] = "Unnamed: " + std::to_string(i);
  }
  for (std::size_t i = 0; i < count; ++i) {  // as pandas names the second of two `a`: `a.1`
    const std::string name = header[i];
    auto is_taken = [&] { return std::count(header.begin(), header.end(), header[i]) > 1; };
    const bool is_first = std::find(header.begin(), header.end(), name) - header.begin() ==
                          static_cast<std::ptrdiff_t>(i);
    for (int n = 1; !is_first && is_taken(); ++n) header[i] = name + "." + std::to_string(n);
  }
  return header;
}

IKEBANA_INLINE void CsvReader::check_names(const std::vector<std::string>& names) const {
  auto check = [&](const std::string& name, const char* option) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw BadValue("read_csv: `" + path_.string() + "` has no column of " + option +
                     nearest_names({name}, names) +
                     ". Correct the name, or set `sep` or `header`.");
  };
  for (const auto& name : options_.usecols) check(name, "`usecols`");
  for (const auto& [name, type] : options_.dtype) check(name, "`dtype`");
}

IKEBANA_INLINE void CsvReader::make_columns(std::vector<std::string> header, bool is_header) {
  const std::vector<std::string> names = column_names(std::move(header), is_header);
  check_names(names);
  for (const auto& name : names) {
    const auto& wanted = options_.usecols;
    const bool is_read =
        wanted.empty() || std::find(wanted.begin(), wanted.end(), name) != wanted.end();
    const auto given = options_.dtype.find(name);
    columns_.emplace_back(
        name, is_read, given == options_.dtype.end() ? std::nullopt : std::optional(given->second));
  }
}

IKEBANA_INLINE const char* CsvReader::begin() {
  line_ = 1, quote_line_ = 0;
  const char* p = text_.begin_again();
  for (std::int64_t i = 0; i < options_.skiprows; ++i) p = skip_line(p);
  p = skip_empty_lines(p);
  if (!p)
    throw BadFile("read_csv: `" + path_.string() + "` has no line" +
                  (options_.skiprows > 0 ? " after those that are skipped" : "") +
                  ", not even one of names. Write the table again.");
  const bool is_header = options_.header.value_or(options_.names.empty());
  if (!is_header && !columns_.empty()) return p;
  std::vector<std::string> first = texts_of_row(p);
  if (columns_.empty()) make_columns(std::move(first), is_header);
  return is_header ? p : begin();
}

}  // namespace ikebana::detail
