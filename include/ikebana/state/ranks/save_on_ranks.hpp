#pragma once
// Saves and loads a state on all ranks together; a save is written at once or by a thread.
#include <atomic>
#include <ikebana/detail/message.hpp>
#include <ikebana/error.hpp>
#include <ikebana/ranks/all_or_none.hpp>
#include <ikebana/state/async_save.hpp>
#include <ikebana/state/ranks/rank_states.hpp>
#include <ikebana/state/saved_state.hpp>
#include <ikebana/state/saved_trainer.hpp>
#include <ikebana/state/state_parts.hpp>

namespace ikebana::detail {

using Clean = std::function<void()>;

/// Saves the state of all ranks. Rank 0 calls `clean` after the state is durable. Throws on all
/// ranks or on none, FileFailed if another rank failed; the former state then stays.
void save_on_ranks(SavedTrainer& trainer, const StateParts& parts, const StatePaths& paths,
                   Files& files, const Clean& clean);

/// Ends a save in a thread of each rank. The threads exchange their results on a board. `write()`
/// writes this rank's file and returns its checksum. After `hurries` becomes true, the other ranks
/// have one more second. Throws on all ranks or on none.
class SaveByBoard {
 public:
  SaveByBoard(std::shared_ptr<RankBoard> board, RankSave save, Clean clean)
      : board_(std::move(board)), save_(std::move(save)), clean_(std::move(clean)) {}

  void run(c10::function_ref<std::string()> write, const std::atomic<bool>& hurries) const;
  /// Tells the others that this rank will not write its file.
  void give_up(const std::string& why) const noexcept;

 private:
  /// Rank 0 ends the save, and posts the result.
  void end(const std::exception_ptr& own, const std::atomic<bool>& hurries) const;
  void commit(const std::atomic<bool>& hurries) const;
  /// Waits for what another rank posts.
  std::string result(const std::string& name, std::int64_t rank,
                     const std::atomic<bool>& hurries) const;

  std::shared_ptr<RankBoard> board_;
  RankSave save_;
  Clean clean_;
};

/// Saves as `save_on_ranks` does, by a thread of each rank. Returns after the state is copied.
PendingSave save_async_on_ranks(SavedTrainer& trainer, AsyncSaver& saver, const StateParts& parts,
                                const StatePaths& paths, Files& files, const Clean& clean);

/// Reads the first of `paths` that all ranks can read. All ranks call it. Calls `skip(path,
/// reason)` for each path before it. Throws BadFile if no path can be read.
LoadedState read_on_ranks(RankGroup& group, Files& files, const StatePaths& paths,
                          const std::function<StateRows(StateDict)>& plan,
                          const std::function<void(const Files::Path&, const std::string&)>& skip);

/// Loads the state at `path` on all ranks, or on none.
void load_on_ranks(SavedTrainer& trainer, const StateParts& parts, const Files::Path& path,
                   Files& files);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/ranks/impl/save_on_ranks.ipp>
#endif
