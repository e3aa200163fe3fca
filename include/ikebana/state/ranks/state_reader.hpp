#pragma once
// Reads a saved state, of one file or of one for each rank, in the rows that a rank needs.
#include <ikebana/state/files/tensor_reader.hpp>
#include <ikebana/state/ranks/rank_files.hpp>
#include <set>

namespace ikebana::detail {

/// A state on a disk. Reads headers first, then tensors one by one: a rank has memory for what it
/// reads alone. All checksums are compared. Throws BadFile, FileFailed and OutOfMemory.
class StateReader {
 public:
  /// With `require_checksums`, a file that lacks one is damaged.
  StateReader(Files& files, const Files::Path& path, bool require_checksums = true);

  /// How many ranks saved it.
  std::int64_t ranks() const { return std::ssize(parts_); }
  const FileHeader& header() const { return header_; }
  /// The names of tensors that `rank` of `ranks` loads: those of all, and its own where as many
  /// ranks load as saved, else those of rank 0.
  std::set<std::string> names(std::int64_t rank, std::int64_t ranks) const;
  /// What a tensor is as a whole, for rank 0.
  using Layout = TensorFileReader::Layout;
  Layout layout(const std::string& name) const;
  /// A tensor as a whole, on the CPU.
  at::Tensor read(const std::string& name, std::int64_t rank, std::int64_t ranks);
  /// The rows `wanted` of a tensor. Where the state's has other sizes, one of these without values,
  /// and `wanted` has the sizes then.
  at::Tensor read_rows(const std::string& name, std::int64_t rank, std::int64_t ranks,
                       Slice& wanted);
  /// Reads everything, and keeps nothing. Throws where a checksum differs.
  void check();

 private:
  struct Part {
    Files::Path path;
    FileHeader header;
  };
  /// Rows of a tensor that one of the files has.
  struct Piece {
    std::size_t part;
    RowRange rows;
  };
  /// A whole tensor.
  struct Pieces {
    at::ScalarType type = at::ScalarType::Undefined;
    std::vector<std::int64_t> sizes = {};
    std::vector<Piece> all = {};  // in the order of rows, without gaps
  };

  void add(const RankFile& file);
  TensorFileReader::Layout layout_in(std::size_t part, const std::string& name) const;
  /// The file of a part. One is open at a time: there may be more than a process may open.
  TensorFileReader& file_of(std::size_t part);
  [[noreturn]] void refuse_incomplete(const std::string& name, const std::string& why) const;
  /// In which files a rank looks for what no rows are of, the first one first.
  std::vector<std::size_t> parts_for(std::int64_t rank, std::int64_t all) const;
  Pieces pieces_of(const std::string& name, std::int64_t rank, std::int64_t all) const;
  at::Tensor read(const Pieces& pieces, const std::string& name, const Slice* wanted);
  static std::int64_t rows_of(const std::vector<std::int64_t>& sizes);

  /// Finds the rows that are in the files, and checks that none is missing.
  void collect();
  /// `text`: the first row, the one after the last, and how many the whole tensor has.
  void add_piece(std::size_t part, const std::string& name, const std::string& text);
  [[noreturn]] void damaged(const std::string& name, const std::string& what) const;

  Files& files_;
  Files::Path path_;
  FileHeader header_;  // of the file at the path
  std::vector<Part> parts_;
  std::optional<TensorFileReader> open_;
  std::size_t open_part_ = 0;
  std::map<std::string, Pieces> pieces_;  // of tensors that are cut
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/ranks/impl/state_reader.ipp>
#endif
