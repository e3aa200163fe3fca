#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/state/save_on_ranks.hpp>

namespace ikebana::detail {

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
    // What it posted before it ended is seen in one more look.
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

}  // namespace ikebana::detail
