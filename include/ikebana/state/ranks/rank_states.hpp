#pragma once
// Saves and loads the states of several ranks: each writes a file of its own, and the first one
// then the manifest.
#include <chrono>
#include <ikebana/posix/files.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/state/archive.hpp>
#include <ikebana/state/files/safetensors.hpp>
#include <ikebana/state/tensor_file.hpp>

namespace ikebana {

/// The state of one rank: its tensors, and which rows of whole ones they are.
struct RankState {
  StateDict tensors;
  StateRows rows;
};

namespace detail {

/// True if every checksum of a state agrees, or of a file that has some. Reads all of it, one
/// tensor at a time.
bool is_intact(Files& files, const Files::Path& path);

/// Where a state is saved: at each of these paths there is a manifest in the end, in this order.
/// The files of ranks have the name of the last.
using StatePaths = std::vector<Files::Path>;

/// A save of all ranks, from when its token is known.
class RankSave {
 public:
  RankSave(StatePaths paths, std::string token, std::int64_t rank, std::int64_t ranks,
           Metadata metadata, Files& files)
      : paths_(std::move(paths)),
        token_(std::move(token)),
        rank_(rank),
        ranks_(ranks),
        metadata_(std::move(metadata)),
        files_(files) {}

  std::int64_t rank() const { return rank_; }
  std::int64_t ranks() const { return ranks_; }
  /// The names of what the ranks post of this save, if they do.
  std::string name_of(std::int64_t rank) const;
  std::string name_of_end() const { return "save/" + token_ + "/end"; }
  /// Writes the file of this rank, durably. Returns the checksum of its header.
  std::string write(const StateDict& tensors, const StateRows& rows) const;
  /// Rank 0, when all ranks have written theirs.
  void commit(const std::vector<std::string>& checksums) const;
  /// A save that did not succeed: removes the file of this rank.
  void discard() const noexcept { remove_quietly(files_, path_of(rank_)); }

 private:
  /// How long the file of another host may take to be seen on this one.
  static constexpr std::chrono::seconds sees_within{5};

  Files::Path path_of(std::int64_t rank) const;
  void wait_for(std::int64_t rank) const;

  StatePaths paths_;
  std::string token_;
  std::int64_t rank_, ranks_;
  Metadata metadata_;
  Files& files_;
};

/// Whether no lower rank has the same rows, of the slice ranks of all.
bool writes_rows(const std::vector<std::string>& slice_ranks, std::int64_t rank);
/// The lines of a text, without the last one where that is empty.
std::vector<std::string> lines_of(const std::string& text);

/// Takes from a state what another rank writes: rows that a lower rank has as well, and what is the
/// same on rank 0. Returns the token of this save, which is rank 0's. A call of all ranks.
std::string divide(RankGroup& group, std::int64_t slice_rank, RankState& state);

/// All tensors of a state, as a whole.
TensorFile read_whole(Files& files, const Files::Path& path, bool require_checksums);

/// What a rank has read.
struct LoadedState {
  FileHeader header;
  RankState state;
};

/// Reads the tensors that `rank` of `ranks` loads, those that `plan` names in the rows that it has
/// for them.
LoadedState read_state(Files& files, const Files::Path& path, std::int64_t rank, std::int64_t ranks,
                       const std::function<StateRows(StateDict)>& plan);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/ranks/impl/rank_states.ipp>
#endif
