#pragma once
// Defines a table: named columns of numbers or texts, as a csv or a Parquet file holds them.
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana {

/// The type of a column: a dtype, or text.
struct ColumnType {
  /// Makes the type of a column of numbers: `at::kFloat`.
  constexpr ColumnType(at::ScalarType dtype) : scalar_type(dtype) {}
  /// Returns the type of a column of texts.
  static constexpr ColumnType text() { return {}; }
  /// Returns whether the column holds texts.
  constexpr bool is_text() const { return scalar_type == at::ScalarType::Undefined; }

  at::ScalarType scalar_type = at::ScalarType::Undefined;  ///< Undefined for a column of texts

 private:
  constexpr ColumnType() = default;
};

/// A column as numbers of categories.
struct Categories {
  at::Tensor codes;                ///< (rows), Long: the index of each row's name; -1 if missing
  std::vector<std::string> names;  ///< the categories
};

/// Options of `Table::categories`.
struct CategoriesOptions {
  /// true: names are in the order of their bytes, as pandas' `Categorical` has them; false: in the
  /// order in which they appear, as `pandas.factorize` returns them.
  bool sort = true;
  /// The categories, such as the names from the training rows: a table that is numbered by itself
  /// may have other numbers for the same names. If empty, they are the values of the column.
  std::vector<std::string> names{};
};

namespace detail {

/// Texts, one behind the other in memory.
struct Texts {
  std::string bytes;
  std::vector<std::uint64_t> ends;    ///< the end of each text in `bytes`
  std::vector<std::int64_t> missing;  ///< the rows that have no value; their texts are empty

  std::int64_t size() const { return static_cast<std::int64_t>(ends.size()); }
  std::string_view at(std::int64_t row) const {
    const auto i = static_cast<std::size_t>(row);
    const std::uint64_t begin = i == 0 ? 0 : ends[i - 1];
    return std::string_view(bytes).substr(begin, ends[i] - begin);
  }
};

/// A column of numbers in `values`, or of texts if that is undefined.
struct TableColumn {
  std::string name;
  at::Tensor values;
  Texts texts;
  std::string why_text{};  ///< a clause that says which value made this a column of texts
  bool is_mixed = false;   ///< true: values before that one were numbers

  std::int64_t size() const { return values.defined() ? values.size(0) : texts.size(); }
};

}  // namespace detail

/// Named columns of equal length. `read_csv` and `read_parquet` make one; columns are numbers
/// (Bool, Long, Double or a given dtype) or texts. Copies share memory.
class Table {
 public:
  /// Makes a table of `columns`, which `source`, the path of a file, names in errors. Throws
  /// BadFile for columns of different lengths or with the same name.
  Table(std::string source, std::vector<detail::TableColumn> columns);

  /// Returns the number of rows.
  std::int64_t rows() const { return rows_; }
  /// Returns the names of the columns, in their order in the file.
  std::vector<std::string> names() const;
  /// Returns whether there is a column of this name.
  bool has(const std::string& name) const;
  /// Returns the type of a column. Throws BadValue for an unknown name.
  ColumnType type(const std::string& name) const;

  /// Returns a column of numbers: (rows), of its dtype; it shares the table's memory. Throws
  /// BadValue for an unknown name, and for a column of texts, with the value that made it one.
  at::Tensor operator[](const std::string& name) const;
  /// Returns columns side by side: (rows, columns), of this dtype, a copy. Throws BadValue as
  /// `operator[]`, for a dtype of integers if a value is missing or has a fraction, and for a value
  /// that the dtype cannot hold.
  at::Tensor tensor(const std::vector<std::string>& names, at::ScalarType dtype = at::kFloat) const;

  /// Returns a column of texts, a copy; a missing value is an empty text. Throws BadValue for an
  /// unknown name and for a column of numbers, whose texts are not kept.
  std::vector<std::string> text(const std::string& name) const;
  /// Returns which rows have no value in a column: (rows), Bool.
  at::Tensor missing(const std::string& name) const;

  /// Numbers the different values of a column of texts or of integers. Throws BadValue for an
  /// unknown name, for a column of other numbers, and for a value that is none of the given
  /// `names`, with its row.
  Categories categories(const std::string& name, const CategoriesOptions& options = {}) const;

  /// Describes the rows and the type of each column, one line each.
  std::string describe() const;

 private:
  const detail::TableColumn& column(const std::string& name) const;
  [[noreturn]] void fail(const std::string& name, const std::string& what) const;
  std::string spelled(const detail::TableColumn& column, std::int64_t row) const;
  std::vector<std::string> categories_of(const detail::TableColumn& column, bool sort) const;

  std::string source_;
  std::shared_ptr<const std::vector<detail::TableColumn>> columns_;
  std::int64_t rows_ = 0;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/table.ipp>
#endif
