#pragma once
// Saves and loads the states of several ranks: each writes a file of its own, and the first one
// then the manifest.
#include <chrono>
#include <ikebana/posix/files.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/state/archive.hpp>
#include <ikebana/state/files/safetensors_format.hpp>
#include <ikebana/state/files/safetensors_writer.hpp>

namespace ikebana {

/// The state of one rank: its tensors, and the rows of whole tensors that they are.
struct RankState {
  StateDict tensors;
  StateRows rows;
};

namespace detail {

/// Returns whether every checksum agrees that a state or a file has. Reads all of it, one tensor at
/// a time.
bool is_intact(Files& files, const Files::Path& path);

/// The paths of a saved state: a manifest is written at each of them, in this order. The files of
/// ranks are named after the last path.
using StatePaths = std::vector<Files::Path>;

/// A save of all ranks, after its token is known.
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
  /// Returns the name under which a rank posts its result of this save on the board.
  std::string name_of(std::int64_t rank) const;
  std::string name_of_end() const { return "save/" + token_ + "/end"; }
  /// Writes the file of this rank, durably. Returns the checksum of its header.
  std::string write(const StateDict& tensors, const StateRows& rows) const;
  /// Rank 0 calls it after all ranks have written their files. Writes the manifests.
  void commit(const std::vector<std::string>& checksums) const;
  /// Removes the file of this rank, after a save that failed.
  void discard() const noexcept { remove_quietly(files_, path_of(rank_)); }

 private:
  /// The time that a file of another host may take to appear on this one.
  static constexpr std::chrono::seconds sees_within{5};

  Files::Path path_of(std::int64_t rank) const;
  void wait_for(std::int64_t rank) const;

  StatePaths paths_;
  std::string token_;
  std::int64_t rank_, ranks_;
  Metadata metadata_;
  Files& files_;
};

/// Returns whether no lower rank has the same rows. `slice_ranks` has the slice rank of each rank.
bool writes_rows(const std::vector<std::string>& slice_ranks, std::int64_t rank);
/// Returns the lines of a text, without the last one if it is empty.
std::vector<std::string> lines_of(const std::string& text);

/// Removes from a state what another rank writes: rows that a lower rank has as well, and tensors
/// that are the same on rank 0. Returns the token of this save, which rank 0 chooses. All ranks
/// call it.
std::string divide(RankGroup& group, std::int64_t slice_rank, RankState& state);

/// Reads all tensors of a state, each as a whole.
TensorFile read_whole(Files& files, const Files::Path& path, bool require_checksums);

/// The part of a state that a rank has read.
struct LoadedState {
  FileHeader header;
  RankState state;
};

/// Reads the tensors that `rank` of `ranks` loads. If `plan` names a tensor, reads only the rows
/// that it gives.
LoadedState read_state(Files& files, const Files::Path& path, std::int64_t rank, std::int64_t ranks,
                       const std::function<StateRows(StateDict)>& plan);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/ranks/impl/rank_states.ipp>
#endif
