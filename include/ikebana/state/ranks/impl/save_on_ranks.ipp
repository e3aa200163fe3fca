#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/state/ranks/save_on_ranks.hpp>

namespace ikebana::detail {

/// A save that all ranks have begun: the tensors that this rank writes, and the writer.
struct BegunSave {
  RankSave save;
  StateDict tensors;  ///< the trainer's own, not copies
  StateRows rows;
};

/// Begins a save at `paths`. All ranks call it.
inline BegunSave begin_save(SavedTrainer& trainer, const Ranks& ranks, const StateParts& parts,
                            StatePaths paths, Files& files) {
  RankState state = trainer.rank_state(parts);
  std::string token = divide(ranks.data(), ranks.slices().rank(), state);
  RankSave save(std::move(paths), std::move(token), ranks.data().rank(), ranks.data().size(),
                metadata_of(trainer), files);
  return {std::move(save), std::move(state.tensors), std::move(state.rows)};
}

IKEBANA_INLINE void save_on_ranks(SavedTrainer& trainer, const StateParts& parts,
                                  const StatePaths& paths, Files& files, const Clean& clean) {
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

IKEBANA_INLINE void SaveByBoard::run(c10::function_ref<std::string()> write,
                                     const std::atomic<bool>& hurries) const {
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

IKEBANA_INLINE void SaveByBoard::give_up(const std::string& why) const noexcept {
  try {
    board_->post(save_.name_of(save_.rank()), "-" + why);
  } catch (const std::exception&) {  // the others wait until their time limit
  }
}

IKEBANA_INLINE void SaveByBoard::end(const std::exception_ptr& own,
                                     const std::atomic<bool>& hurries) const {
  try {
    if (own) std::rethrow_exception(own);
    commit(hurries);
  } catch (const std::exception& error) {
    board_->post(save_.name_of_end(), "-" + text_of(error));
    throw;
  }
  board_->post(save_.name_of_end(), "+");
}

IKEBANA_INLINE void SaveByBoard::commit(const std::atomic<bool>& hurries) const {
  std::vector<std::string> sums;
  for (std::int64_t r = 0; r < save_.ranks(); ++r)
    sums.push_back(result(save_.name_of(r), r, hurries));
  for (std::int64_t r = 0; r < save_.ranks(); ++r) board_->remove(save_.name_of(r));
  save_.commit(sums), clean_();
}

IKEBANA_INLINE std::string SaveByBoard::result(const std::string& name, std::int64_t rank,
                                               const std::atomic<bool>& hurries) const {
  using Clock = std::chrono::steady_clock;
  auto end = Clock::now() + board_->time_limit();
  for (bool hurried = false, ended = false;;) {
    if (const auto text = board_->look(name)) {
      if ((*text)[0] == '+') return text->substr(1);
      const std::string why = text->substr(1);
      throw FileFailed(why.starts_with("rank ") ? why
                                                : "rank " + std::to_string(rank) + ": " + why);
    }
    // After a rank has ended, one more look finds what it posted before.
    if (!std::exchange(ended, board_->has_ended(rank)) && ended) continue;
    if (hurries && !std::exchange(hurried, true))
      end = std::min(end, Clock::now() + std::chrono::seconds(1));
    if (ended || Clock::now() > end)
      throw FileFailed("save: rank " + std::to_string(rank) +
                       " did not end its part of a save that was begun. It may have been killed; "
                       "the state before is intact: load that one.");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

IKEBANA_INLINE PendingSave save_async_on_ranks(SavedTrainer& trainer, AsyncSaver& saver,
                                               const StateParts& parts, const StatePaths& paths,
                                               Files& files, const Clean& clean) {
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

IKEBANA_INLINE LoadedState
read_on_ranks(RankGroup& group, Files& files, const StatePaths& paths,
              const std::function<StateRows(StateDict)>& plan,
              const std::function<void(const Files::Path&, const std::string&)>& skip) {
  std::exception_ptr first;
  for (const Files::Path& path : paths) {
    LoadedState loaded;
    try {
      all_or_none<BadFile>(group, "the reading of a state", [&] {
        loaded = read_state(files, path, group.rank(), group.size(), plan);
        return std::string();
      });
      return loaded;
    } catch (const AgreedError& error) {
      if (!first) first = error.error;
      try {
        std::rethrow_exception(error.error);
      } catch (const std::exception& reason) {
        skip(path, reason.what());
      }
    }
  }
  throw AgreedError{first};
}

IKEBANA_INLINE void load_on_ranks(SavedTrainer& trainer, const StateParts& parts,
                                  const Files::Path& path, Files& files) {
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
