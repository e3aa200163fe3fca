#pragma once
// What all ranks do together to save a state, at once or by a thread, and to load one.
#include <atomic>
#include <ikebana/detail/message.hpp>
#include <ikebana/error.hpp>
#include <ikebana/ranks/all_or_none.hpp>
#include <ikebana/state/async_save.hpp>
#include <ikebana/state/rank_states.hpp>
#include <ikebana/state/saved_state.hpp>
#include <ikebana/state/state_parts.hpp>

namespace ikebana::detail {

using Clean = std::function<void()>;

/// A save that all ranks have begun: what this one writes, and how.
struct BegunSave {
  RankSave save;
  StateDict tensors;  ///< of the trainer, uncopied
  StateRows rows;
};

/// Begins a save at `paths`. A call of all ranks.
template <class Trainer>
BegunSave begin_save(Trainer& trainer, const Ranks& ranks, const StateParts& parts,
                     StatePaths paths, Files& files) {
  RankState state = trainer.rank_state(parts);
  std::string token = divide(ranks.data(), ranks.slices().rank(), state);
  RankSave save(std::move(paths), std::move(token), ranks.data().rank(), ranks.data().size(),
                trainer.metadata(), files);
  return {std::move(save), std::move(state.tensors), std::move(state.rows)};
}

/// Saves the state of all ranks. Rank 0 calls `clean` when it is durable. Throws on all ranks or on
/// none, FileFailed for what another rank could not do; the former state stays then.
template <class Trainer>
void save_on_ranks(Trainer& trainer, const StateParts& parts, const StatePaths& paths, Files& files,
                   const Clean& clean) {
  trainer.together_or_not("a save", [&] {
    const Ranks ranks = *trainer.several_ranks();
    const BegunSave begun = begin_save(trainer, ranks, parts, paths, files);
    std::vector<std::string> sums;
    try {
      sums = all_or_none<FileFailed>(ranks.data(), "the files of a save",
                                     [&] { return begun.save.write(begun.tensors, begun.rows); });
    } catch (const AgreedError&) {  // else rank 0 may be writing a manifest that names it
      begun.save.discard();
      throw;
    }
    all_or_none<FileFailed>(ranks.data(), "the manifest of a save", [&] {
      if (ranks.data().rank() == 0) begun.save.commit(sums), clean();
      return std::string();
    });
  });
}

/// Ends a save in a thread of each rank, which hear of each other by their board. `write()` writes
/// this rank's file and returns its checksum. When `hurries` becomes true, the other ranks have one
/// more second. Throws on all ranks or on none.
class SaveByBoard {
 public:
  SaveByBoard(std::shared_ptr<RankBoard> board, RankSave save, Clean clean)
      : board_(std::move(board)), save_(std::move(save)), clean_(std::move(clean)) {}

  template <class Write>
  void run(const Write& write, const std::atomic<bool>& hurries) const {
    std::exception_ptr own;
    std::string outcome;
    try {
      outcome = "+" + write();
    } catch (const std::exception& error) {
      own = std::current_exception(), outcome = "-" + text_of(error);
      save_.discard();
    }
    board_->post(save_.name_of(save_.rank()), outcome);  // from here on rank 0 may name the file
    if (save_.rank() == 0) end(own, hurries);
    if (own) std::rethrow_exception(own);
    result(save_.name_of_end(), 0, hurries);
  }
  /// This rank will not write its file.
  void give_up(const std::string& why) const noexcept;

 private:
  /// Rank 0 ends the save, and says how.
  void end(const std::exception_ptr& own, const std::atomic<bool>& hurries) const;
  void commit(const std::atomic<bool>& hurries) const;
  /// Waits for what another rank posts.
  std::string result(const std::string& name, std::int64_t rank,
                     const std::atomic<bool>& hurries) const;

  std::shared_ptr<RankBoard> board_;
  RankSave save_;
  Clean clean_;
};

/// As `save_on_ranks`, by a thread of each rank: returns when the state is copied.
template <class Trainer>
PendingSave save_async_on_ranks(Trainer& trainer, AsyncSaver& saver, const StateParts& parts,
                                const StatePaths& paths, Files& files, const Clean& clean) {
  const Ranks ranks = *trainer.several_ranks();
  const std::shared_ptr<RankBoard> board = ranks.data().board();
  if (board == nullptr)
    throw BadValue(
        "save_async: the ranks have a process group of your own and no store, by which their "
        "threads could hear of each other. Call save, or give the policy a ProcessGroup of a "
        "store.");
  saver.finish();
  std::optional<BegunSave> begun;
  trainer.together_or_not("the beginning of a save",
                          [&] { begun.emplace(begin_save(trainer, ranks, parts, paths, files)); });
  const SaveByBoard by_board(board, begun->save, clean);
  auto write = [by_board, save = begun->save, rows = begun->rows,
                hurries = saver.hurries()](const StateDict& copy) {
    by_board.run([&] { return save.write(copy, rows); }, *hurries);
  };
  try {
    return saver.save(begun->tensors, std::move(write));
  } catch (const std::exception& error) {
    by_board.give_up(text_of(error));
    throw;
  }
}

/// Reads the first of `paths` that all ranks can read. A call of all ranks. Calls `skip(path,
/// reason)` for those before it. Throws BadFile where there is none.
LoadedState read_on_ranks(RankGroup& group, Files& files, const StatePaths& paths,
                          const std::function<StateRows(StateDict)>& plan,
                          const std::function<void(const Files::Path&, const std::string&)>& skip);

/// Loads the state at `path` on all ranks, or on none.
template <class Trainer>
void load_on_ranks(Trainer& trainer, const StateParts& parts, const Files::Path& path,
                   Files& files) {
  trainer.together_or_not("the load of a state", [&] {
    auto skip = [&](const Files::Path& place, const std::string& reason) {
      if (place == path) TORCH_WARN(reason, " Looks for the state before it.");
    };
    auto plan = [&](StateDict names) { return trainer.rows_to_load(std::move(names)); };
    RankGroup& group = trainer.several_ranks()->data();
    LoadedState loaded = read_on_ranks(group, files, places_of(path), plan, skip);
    trainer.restore_rows(std::move(loaded.state), parts);
  });
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/impl/save_on_ranks.ipp>
#endif
