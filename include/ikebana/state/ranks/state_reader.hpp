#pragma once
// Reads the rows that a rank needs from a saved state, which is one file or one file for each rank.
#include <ikebana/state/files/safetensors_reader.hpp>
#include <ikebana/state/ranks/rank_files.hpp>
#include <set>

namespace ikebana::detail {

/// A state on a disk. Reads headers first, then tensors one by one, so that a rank needs memory
/// only for what it reads. All checksums are compared. Throws BadFile, FileFailed and OutOfMemory.
class StateReader {
 public:
  /// Opens a state. With `require_checksums`, a file without checksums counts as damaged.
  StateReader(Files& files, const Files::Path& path, bool require_checksums = true);

  /// Returns the number of ranks that saved the state.
  std::int64_t ranks() const { return std::ssize(parts_); }
  const FileHeader& header() const { return header_; }
  /// Returns the names of tensors that `rank` of `ranks` loads: the names that all ranks share, and
  /// the rank's own if as many ranks load as saved, else the names of rank 0.
  std::set<std::string> names(std::int64_t rank, std::int64_t ranks) const;
  /// Returns the dtype and shape of a whole tensor, as rank 0 loads it.
  using Layout = TensorFileReader::Layout;
  Layout layout(const std::string& name) const;
  /// Reads a whole tensor, to the CPU.
  at::Tensor read(const std::string& name, std::int64_t rank, std::int64_t ranks);
  /// Reads the rows `wanted` of a tensor. If the saved tensor has other sizes, returns a tensor of
  /// these sizes without values, and sets the sizes of `wanted` to them.
  at::Tensor read_rows(const std::string& name, std::int64_t rank, std::int64_t ranks,
                       Slice& wanted);
  /// Reads everything, and keeps nothing. Throws if a checksum differs.
  void check();

 private:
  struct Part {
    Files::Path path;
    FileHeader header;
  };
  /// The rows of a tensor that one of the files has.
  struct Piece {
    std::size_t part;
    RowRange rows;
  };
  /// The pieces of a whole tensor.
  struct Pieces {
    at::ScalarType type = at::ScalarType::Undefined;
    std::vector<std::int64_t> sizes = {};
    std::vector<Piece> all = {};  // the pieces in the order of rows, without gaps
  };

  void add(const RankFile& file);
  TensorFileReader::Layout layout_in(std::size_t part, const std::string& name) const;
  /// Opens the file of a part. One file is open at a time, because a state may have more files than
  /// a process may open.
  TensorFileReader& file_of(std::size_t part);
  [[noreturn]] void refuse_incomplete(const std::string& name, const std::string& why) const;
  /// Returns the parts in which a rank looks for a tensor that is not cut into rows, in order.
  std::vector<std::size_t> parts_for(std::int64_t rank, std::int64_t all) const;
  Pieces pieces_of(const std::string& name, std::int64_t rank, std::int64_t all) const;
  at::Tensor read(const Pieces& pieces, const std::string& name, const Slice* wanted);
  static std::int64_t rows_of(const std::vector<std::int64_t>& sizes);

  /// Finds the rows that are in the files, and checks that none is missing.
  void collect();
  /// Adds a piece. `text` has the first row, the one after the last, and the number of rows of the
  /// whole tensor.
  void add_piece(std::size_t part, const std::string& name, const std::string& text);
  [[noreturn]] void damaged(const std::string& name, const std::string& what) const;

  Files& files_;
  Files::Path path_;
  FileHeader header_;  // the header of the file at the path
  std::vector<Part> parts_;
  std::optional<TensorFileReader> open_;
  std::size_t open_part_ = 0;
  std::map<std::string, Pieces> pieces_;  // the pieces of tensors that are cut into rows
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/ranks/impl/state_reader.ipp>
#endif
