#pragma once
// A column of a csv file while it is read: it takes one field after another, and finds its type.
#include <charconv>
#include <ikebana/files/csv.hpp>
#include <ikebana/files/number_text.hpp>

namespace ikebana::detail {

/// The texts that stand for a missing value.
class MissingTexts {
 public:
  explicit MissingTexts(const CsvOptions& options);
  bool has(std::string_view text) const {
    if (text.empty()) return has_empty_;
    return begins_[static_cast<unsigned char>(text[0])] && is_listed(text);
  }
  bool has(double number) const;
  /// Returns whether some numbers stand for a missing value, such as -999.
  bool has_numbers() const { return !numbers_.empty(); }

 private:
  bool is_listed(std::string_view text) const;

  std::vector<std::string> texts_;
  std::vector<double> numbers_;
  bool begins_[256] = {};  // the first bytes of all texts
  bool has_empty_ = false;
};

/// The characters and texts that a file and all its columns share.
struct CsvFormat {
  explicit CsvFormat(const CsvOptions& options);

  char sep, quote, decimal;
  bool has_quote;
  MissingTexts missing;
  bool ends[256] = {};  ///< the bytes that end a field without quotes
};

/// A column while its file is read. `Kind` is the type in which values are stored so far.
class CsvColumn {
 public:
  enum class Kind : std::uint8_t { Boolean, Long, Double, Text };

  /// Makes the column of this name. If `is_read` is false, its fields are skipped.
  CsvColumn(std::string name, bool is_read, std::optional<ColumnType> given);

  const std::string& name() const { return name_; }
  bool is_read() const { return is_read_; }
  /// Returns whether the fields of this pass over the file are not needed.
  bool rests() const { return rests_; }
  bool is_text() const { return kind_ == Kind::Text; }
  void reserve(std::size_t rows);
  /// Removes rows from the end.
  void truncate(std::size_t rows);
  /// Forgets all values. If only columns that became text are read again, the others are skipped.
  void begin_again(bool only_late_text);
  /// True if it became text after some of its values were read as numbers.
  bool is_late_text() const { return is_late_text_; }

  /// Takes a field that begins at `p` if it is a plain number that fits the column as it is.
  /// Returns the end of the field, or null.
  const char* take_number(const char* p, const CsvFormat& format) {
    if (rests_) return nullptr;
    if (kind_ == Kind::Long) return take_long(p, format);
    return kind_ == Kind::Double ? take_double(p, format) : nullptr;
  }
  /// Takes any field without its quotes. Returns an empty text, or a clause that says why the field
  /// does not fit the column's given type. `line` is its line in the file.
  std::string take(std::string_view text, const CsvFormat& format, std::int64_t line);

  /// Returns the values. `file` is for errors.
  TableColumn finish(const std::string& file);

 private:
  const char* take_long(const char* p, const CsvFormat& format);
  const char* take_double(const char* p, const CsvFormat& format);
  std::string take_missing(std::int64_t line);
  std::string take_number(std::string_view text, const NumberText& number, std::int64_t line);
  std::string take_integer(std::string_view text, std::int64_t value, std::int64_t line);
  std::string take_bool(std::string_view text, const CsvFormat& format, std::int64_t line);
  std::string take_other(std::string_view text, std::int64_t line, const std::string& why);
  bool is_inferred() const { return !given_; }
  std::int64_t size() const;
  void make_double();
  void note_inexact(std::int64_t value, const std::string& where);
  at::Tensor numbers();

  std::string name_;
  std::optional<ColumnType> given_;
  Kind kind_ = Kind::Long;
  bool is_read_, rests_, is_late_text_ = false, is_unsigned_ = false;
  // These say which values were seen so far.
  bool is_mixed_ = false, has_number_ = false, has_real_ = false, has_missing_ = false;
  std::uint64_t max_long_;  // the largest magnitude that the given type holds
  double max_real_;
  std::vector<std::int64_t> longs_;  // also Bool: 0, 1, and -1 if missing
  std::vector<double> doubles_;
  Texts texts_;
  std::string why_text_, inexact_;
};

inline const char* CsvColumn::take_long(const char* p, const CsvFormat& format) {
  const bool is_negative = *p == '-';
  p += is_negative;
  const char* const begin = p;
  std::uint64_t value = 0;
  for (; static_cast<unsigned char>(*p - '0') < 10; ++p)
    value = value * 10 + static_cast<unsigned char>(*p - '0');
  const auto digits = p - begin;
  if (digits < 1 || digits > 18 || !format.ends[static_cast<unsigned char>(*p)] ||
      value > max_long_ || (is_negative && is_unsigned_) || (*begin == '0' && digits > 1) ||
      format.missing.has_numbers())
    return nullptr;
  const auto integer = static_cast<std::int64_t>(value);
  longs_.push_back(is_negative ? -integer : integer);
  has_number_ = true;
  return p;
}

inline const char* CsvColumn::take_double(const char* p, const CsvFormat& format) {
  const bool is_negative = *p == '-';
  p += is_negative;
  const char* const begin = p;
  std::uint64_t value = 0;
  for (; static_cast<unsigned char>(*p - '0') < 10; ++p)
    value = value * 10 + static_cast<unsigned char>(*p - '0');
  const auto whole = p - begin;
  std::ptrdiff_t fraction = 0;
  if (*p == format.decimal) {
    const char* const point = p++;
    for (; static_cast<unsigned char>(*p - '0') < 10; ++p)
      value = value * 10 + static_cast<unsigned char>(*p - '0');
    fraction = p - point - 1;
    has_real_ = true;
  }
  if (whole < 1 || !format.ends[static_cast<unsigned char>(*p)] || (*begin == '0' && whole > 1) ||
      format.missing.has_numbers())
    return nullptr;
  double number = 0;
  if (whole + fraction <= 19 && value <= largest_exact)
    number = static_cast<double>(value) / exact_powers_of_ten[fraction];
  else if (fraction == 0 || format.decimal != '.' ||
           std::from_chars(begin, p, number).ec != std::errc())
    return nullptr;
  if (number > max_real_) return nullptr;
  doubles_.push_back(is_negative ? -number : number);
  has_number_ = true;
  return p;
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/csv_column.ipp>
#endif
