#pragma once
// ArrowTable: the Arrow files of Hugging Face's datasets as a dataset.
#include <filesystem>
#include <ikebana/data/sample_rng.hpp>
#include <ikebana/detail/torch.hpp>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace ikebana {

namespace detail {
class ArrowFiles;
}  // namespace detail

/// One row of an ArrowTable, whose values are read when they are asked for. A field of a struct is
/// named with a dot: `image.bytes`.
class ArrowRow {
 public:
  ArrowRow(std::shared_ptr<const detail::ArrowFiles> files, std::int64_t index)
      : files_(std::move(files)), index_(index) {}

  /// Returns a number, without dimensions, or a list of numbers, (length), of the column's dtype; a
  /// copy. A missing floating number is NaN. Throws BadFile for another missing value, BadValue for
  /// a column that does not exist or has another type.
  at::Tensor tensor(const std::string& column) const;
  /// Returns a text or bytes, a copy. Throws what `tensor` throws.
  std::string text(const std::string& column) const;
  /// Returns an integer. Throws what `tensor` throws.
  std::int64_t integer(const std::string& column) const;
  /// Returns whether the row has no value in a column.
  bool missing(const std::string& column) const;
  /// Returns the row's index in the dataset.
  std::int64_t index() const { return index_; }

 private:
  std::shared_ptr<const detail::ArrowFiles> files_;
  std::int64_t index_;
};

namespace detail {

std::shared_ptr<const ArrowFiles> open_arrow_files(const std::vector<std::filesystem::path>& paths);
std::int64_t rows_of(const ArrowFiles& files);
std::vector<std::string> columns_of(const ArrowFiles& files);
void check_row(const ArrowFiles& files, std::int64_t index);

struct RowAsItIs {
  ArrowRow operator()(const ArrowRow& row) const { return row; }
};

}  // namespace detail

/// A dataset of the rows of Arrow files, as Hugging Face's `datasets` writes them by `save_to_disk`
/// and in its cache. `f(const ArrowRow&)` or `f(const ArrowRow&, SampleRng&)` makes of a row what a
/// batch is made of; several threads may call it. Files are mapped: they take no memory, begin at
/// once, and must not be changed while they are used. Shuffling, workers, ranks and resuming are
/// the DataLoader's. Give a file, a list of files, or the folder of `save_to_disk`.
///
/// Throws BadFile for a damaged file, files whose columns differ, and a folder without a dataset.
template <class F = detail::RowAsItIs>
class ArrowTable {
 public:
  /// Opens a file, the folder of `save_to_disk`, or several files.
  explicit ArrowTable(const std::filesystem::path& path, F f = {})
      : ArrowTable(std::vector<std::filesystem::path>{path}, std::move(f)) {}
  explicit ArrowTable(const std::vector<std::filesystem::path>& paths, F f = {})
      : files_(detail::open_arrow_files(paths)), f_(std::move(f)) {}

  /// Returns the number of rows.
  std::int64_t size() const { return detail::rows_of(*files_); }
  /// Returns the columns and their types, such as `input_ids: list<item: int32>`.
  std::vector<std::string> columns() const { return detail::columns_of(*files_); }
  /// Returns what `f` makes of a row.
  auto get(std::int64_t index) const
    requires std::is_invocable_v<const F&, const ArrowRow&>
  {
    detail::check_row(*files_, index);
    return f_(ArrowRow(files_, index));
  }
  auto get(std::int64_t index, SampleRng& rng) const
    requires std::is_invocable_v<const F&, const ArrowRow&, SampleRng&>
  {
    detail::check_row(*files_, index);
    return f_(ArrowRow(files_, index), rng);
  }

 private:
  std::shared_ptr<const detail::ArrowFiles> files_;
  F f_;
};

template <class Paths, class F>
ArrowTable(Paths, F) -> ArrowTable<F>;
template <class Paths>
ArrowTable(Paths) -> ArrowTable<>;

}  // namespace ikebana
