#pragma once
// read_csv: reads a file of comma-separated values as a table.
#include <filesystem>
#include <ikebana/files/table.hpp>
#include <map>
#include <optional>

namespace ikebana {

/// Options of `read_csv`, with pandas' names.
struct CsvOptions {
  char sep = ',';  ///< the character between fields
  /// Whether the first line has the columns' names. If not given, it has them unless `names` are
  /// given, as in pandas.
  std::optional<bool> header{};
  /// The names of all columns. Without these and a header they are "0", "1", ...
  std::vector<std::string> names{};
  std::vector<std::string> usecols{};         ///< the columns to read; empty: all
  std::map<std::string, ColumnType> dtype{};  ///< types of columns; others are found in the file
  /// Texts that stand for a missing value, besides pandas' (an empty field, NA, NaN, null, None,
  /// ...). A text that is a number is compared as a number.
  std::vector<std::string> na_values{};
  bool keep_default_na = true;          ///< false: only `na_values` are missing
  std::int64_t skiprows = 0;            ///< lines to skip at the beginning of the file
  std::optional<std::int64_t> nrows{};  ///< rows to read; if not given, all
  char quotechar = '"';                 ///< quotes fields; '\0': none does
  char decimal = '.';                   ///< the decimal point
};

/// Reads a file of comma-separated values, in one pass for most files, with memory for the values
/// and one block of the file. Fields may be quoted, with separators, line breaks and doubled quotes
/// in them; lines end with LF, CRLF or CR; empty lines are skipped, and so is a byte order mark.
/// Every other line has as many fields as the file has columns.
///
/// A column is Bool (True, TRUE, true, False, FALSE, false), Long, Double or text, whichever first
/// holds all its values. Integers are exact; doubles are the nearest to the text. A column of
/// integers or of Bool with missing values becomes Double with NaN there. Integers of more than 64
/// bits and numbers with leading zeros, such as postal codes, make a column text.
///
/// Throws BadValue for options out of range and names that the file does not have, FileFailed if
/// the file cannot be read, and BadFile for a line with too few or too many fields, a quote that
/// never closes, text behind a closing quote, and a value that does not fit its column's given
/// type: with file, line, column and value.
Table read_csv(const std::filesystem::path& path, const CsvOptions& options = {});

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/csv.ipp>
#endif
