#pragma once
// Defines the folder with the saved states of one training: the newest ones, and the best.
#include <ikebana/posix/files.hpp>
#include <ikebana/state/archive.hpp>
#include <ikebana/state/ranks/rank_states.hpp>
#include <optional>
#include <set>

namespace ikebana {

/// Holds one file per state, such as `step-000000000123.safetensors`, and on several ranks also one
/// for each rank. No state is removed before a newer one is durable. On several ranks, the first
/// one opens the folder, asks for its steps and cleans it. May be used by one thread at a time.
class StateFolder {
 public:
  /// Keeps the newest `keep` states.
  StateFolder(std::filesystem::path folder, std::int64_t keep, Files& files)
      : folder_(std::move(folder)), keep_(keep), files_(files) {}

  ~StateFolder();
  StateFolder(const StateFolder&) = delete;
  StateFolder& operator=(const StateFolder&) = delete;

  /// Creates the folder, locks it for the lifetime of this object, and removes what interrupted
  /// saves of its states left; other files stay. Throws FileFailed, also if another process has
  /// locked the folder.
  void open();
  std::filesystem::path path_of(std::int64_t step) const;
  std::filesystem::path best_path() const { return folder_ / (std::string("best") + extension); }
  /// Returns the steps that have a state, intact or damaged, the newest first.
  std::vector<std::int64_t> steps() const;
  /// Returns the newest intact state; no value if the folder holds no state. Skips states that are
  /// damaged or cannot be read, with a warning, and throws BadFile if no state is left.
  std::optional<TensorFile> newest();
  /// Writes the state of a step, then removes all but the newest `keep`. States that `newest`
  /// skipped do not count as kept, even if they are of later steps. Other states of later steps are
  /// removed, because they are older: the training went back, for example by loading an earlier
  /// state.
  void save(std::int64_t step, const StateDict& state, const Metadata& metadata, bool is_best);
  /// Returns the paths at which several ranks save the state of a step.
  detail::StatePaths paths_of(std::int64_t step, bool is_best) const;
  /// Removes older states, after the state of a step is durable.
  void clean(std::int64_t step);
  /// Notes that the state of a step cannot be loaded, and warns.
  void skip(std::int64_t step, const std::string& reason);

 private:
  static constexpr const char *prefix = "step-", *extension = ".safetensors",
                              *lock_name = "fit.ikebana-lock";

  static std::optional<std::int64_t> step_of(std::string_view name, std::string_view suffix);
  void remove_unnamed();
  void remove(std::int64_t step);
  /// Makes the file of a step a hard link to the best state. Returns false if the file system has
  /// no hard links.
  bool link_best(std::int64_t step);

  std::filesystem::path folder_;
  std::int64_t keep_;
  Files& files_;
  std::unique_ptr<OutputFile> lock_;
  std::set<std::int64_t> skipped_steps_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/state_folder.ipp>
#endif
