#pragma once
// Saves the state of all ranks to one file, as one rank would write it: each rank writes its rows
// to their places in the file.
#include <ikebana/posix/files.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/state/archive.hpp>
#include <ikebana/state/files/safetensors_writer.hpp>
#include <ikebana/state/ranks/rank_states.hpp>
#include <ikebana/state/saved_trainer.hpp>
#include <ikebana/state/state_parts.hpp>

namespace ikebana::detail {

/// The file while it is written. Rank 0 lays it out; the other ranks know where their rows begin.
class FullState {
 public:
  FullState(RankGroup& group, std::int64_t slice_rank, const RankState& state,
            const Files::Path& path, Files& files)
      : group_(group), slice_rank_(slice_rank), state_(state), path_(path), files_(files) {}

  /// Writes the file. All ranks call it.
  void write(Metadata metadata);

 private:
  Files::Path new_path() const { return with_suffix(path_, new_suffix); }

  /// Rank 0 creates the file, and tells the others where each tensor begins of which they have
  /// rows.
  void begin(Metadata metadata);
  /// Makes a tensor with the shape of the whole one, without values.
  at::Tensor whole(const std::string& name, const at::Tensor& t) const;
  /// Writes what this rank has, and returns the checksums, a line for each tensor.
  std::string rows();
  std::unique_ptr<OutputFile> open_shared() const;
  /// Rank 0 joins the checksums of rows, writes the header, and puts the file in place.
  std::string end(const std::vector<std::string>& sums);

  RankGroup& group_;
  std::int64_t slice_rank_;
  const RankState& state_;
  const Files::Path& path_;
  Files& files_;
  StateDict shapes_;
  std::optional<TensorFileWriter> writer_;
  std::unique_ptr<OutputFile> file_;
  bool is_writer_ = false;
  std::map<std::string, std::uint64_t> offsets_;  // the offset in the file at which rows begin, by
                                                  // quoted name
};

/// Saves the state of all ranks to one file. All ranks call it.
void save_full_on_ranks(SavedTrainer& trainer, const StateParts& parts, const Files::Path& path,
                        Files& files);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/ranks/impl/full_state.ipp>
#endif
