#pragma once
// Reads a csv file block by block, and divides it into rows and fields.
#include <ikebana/files/csv_column.hpp>
#include <ikebana/posix/files.hpp>
#include <memory>

namespace ikebana::detail {

/// Sizes of the parts of a file that are in memory. Tests make them small.
struct CsvSizes {
  std::size_t block = std::size_t{1} << 20;    ///< bytes that are read at once
  std::size_t max_row = std::size_t{1} << 30;  ///< bytes of the longest row
  std::int64_t rows_to_restart = 4096;         ///< rows that are cheap to read again
};

/// The text of a file, of which a part that ends with a line break is in memory.
class CsvText {
 public:
  CsvText(const std::filesystem::path& path, const CsvSizes& sizes);

  /// Begins again at the first byte behind a byte order mark.
  const char* begin_again();
  /// Returns the end of the part in memory; the byte before it is a line break.
  const char* end() const { return end_; }
  /// Forgets what lies before `rest`, and reads more. Returns the new place of `rest`; null at the
  /// end of the file, and if the part from `rest` on is longer than a row may be.
  const char* more(const char* rest);
  bool is_at_end() const { return read_ == size_; }
  /// Returns the offset in the file of a place in memory.
  std::uint64_t offset_of(const char* p) const {
    return read_ - static_cast<std::uint64_t>(buffer_.data() + filled_ - p);
  }
  std::uint64_t size() const { return size_; }

 private:
  void check_format() const;

  std::filesystem::path path_;
  std::unique_ptr<InputFile> file_;
  CsvSizes sizes_;
  std::uint64_t size_, read_ = 0;  // bytes of the file, and the bytes that were read
  std::vector<char> buffer_;
  std::size_t filled_ = 0;
  const char* end_ = nullptr;
};

/// Reads a file as a table.
class CsvReader {
 public:
  CsvReader(std::filesystem::path path, const CsvOptions& options, const CsvSizes& sizes = {});
  Table read();

 private:
  struct Field {
    std::string_view text;
    const char* end;  ///< the separator or line break behind it; null if the field is incomplete
  };

  void check_options() const;
  /// Skips lines, reads the header, and makes the columns at the first call. Returns the first row.
  const char* begin();
  void make_columns(std::vector<std::string> header, bool is_header);
  std::vector<std::string> column_names(std::vector<std::string> header, bool is_header) const;
  void check_names(const std::vector<std::string>& names) const;
  /// Reads all rows. Returns false if a column became text early, so that all must begin again.
  bool read_rows(const char* p);
  /// Reads the row at `p` into the columns. Returns the next row; null if the row is incomplete.
  const char* row(const char* p);
  const char* other_field(CsvColumn& column, const char* p);
  Field field(const char* p);
  Field quoted_field(const char* p);
  /// Returns the texts of the row at `p`, and sets `p` to the next row.
  std::vector<std::string> texts_of_row(const char*& p);
  const char* skip_line(const char* p);
  /// Returns the first row at `p` or behind it that is not empty; null at the end of the file.
  const char* skip_empty_lines(const char* p);
  const char* more(const char* rest);
  const char* behind_line_break(const char* p);
  void reserve(const char* p);
  [[noreturn]] void fail(std::int64_t line, const std::string& what) const;
  [[noreturn]] void fail_fields(std::int64_t line, const char* row) const;

  std::filesystem::path path_;
  CsvOptions options_;
  CsvSizes sizes_;
  CsvFormat format_;
  CsvText text_;
  std::vector<CsvColumn> columns_;
  std::string unquoted_;  // a field whose quotes were doubled
  std::int64_t line_ = 1, rows_ = 0, quote_line_ = 0;
  bool has_late_text_ = false;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/csv_reader.ipp>
#endif
