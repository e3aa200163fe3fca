#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/failure/failure_log.hpp>
#include <ikebana/shard/failure/store_calls.hpp>
#include <ikebana/shard/launch/meeting.hpp>

namespace ikebana::detail {

IKEBANA_INLINE RankReport RankReport::leave(c10d::Store& store, const std::string& prefix) const {
  const auto first = store.compareSet(prefix + "failed", {}, bytes_of(written()));
  return read({first.begin(), first.end()});
}

IKEBANA_INLINE bool RankReport::is_in(c10d::Store& store, const std::string& prefix) {
  return store.check({prefix + "failed"});
}

IKEBANA_INLINE RankReport RankReport::of(c10d::Store& store, const std::string& prefix) {
  return read(store.get_to_str(prefix + "failed"));
}

IKEBANA_INLINE RankReport RankReport::read(const std::string& written) {
  return {written.substr(1), says_out_of_memory(written)};
}

/// Posts, and waits for the posts of the other ranks. Returns an empty text if all are the same,
/// else which rank differs; or '!' and what a rank that failed has reported.
inline std::string compare_posts(GroupMembers& members, const std::string& prefix,
                                 const RankPost& post) {
  c10d::Store& store = *members.store;
  auto key_of = [&](const std::string& key, std::int64_t rank) {
    return prefix + key + "/" + std::to_string(rank);
  };
  auto get = [&](const std::string& key) {
    const auto text = store.get(key);
    return std::string(text.begin(), text.end());
  };
  store.set(key_of(post.key, members.rank), bytes_of(post.text));
  const Deadline deadline(post.limit);
  std::size_t next = 0;
  std::string why;
  const bool is_decided = deadline.wait([&] {
    for (; next < post.ranks.size(); ++next) {
      const std::string key = key_of(post.key, post.ranks[next]);
      if (!store.check({key})) break;
      if (const std::string text = get(key); text != post.text) {
        why = "rank " + std::to_string(post.ranks[next]) + " is at " + text;
        return true;
      }
    }
    if (next < post.ranks.size() && RankReport::is_in(store, prefix))
      why = "!" + RankReport::of(store, prefix).text;
    return next == post.ranks.size() || !why.empty();
  });
  if (!is_decided)
    return "rank " + std::to_string(post.ranks[next]) + " did not come there within " +
           deadline.text();
  if (why.empty() && !post.former_key.empty())
    store.deleteKey(key_of(post.former_key, members.rank));
  return why;
}

/// Returns an empty text when all ranks have come to `prefix`, or why they will not meet there.
inline std::string await_ranks(GroupMembers& members, const std::string& prefix) {
  c10d::Store& store = *members.store;
  auto came = [&](std::int64_t rank) { return prefix + "came/" + std::to_string(rank); };
  store.set(came(members.rank), bytes_of("1"));
  const Deadline deadline(members.timeout);
  std::int64_t next = 0;
  std::string why;
  const bool is_decided = deadline.wait([&] {
    while (next < members.size && store.check({came(next)})) ++next;
    members.watch->look(store);
    why = members.watch->ended();  // a rank that gave up before has said why
    if (store.check({prefix + "abandoned"}))
      why =
          "another rank does not wait any longer, since " + store.get_to_str(prefix + "abandoned");
    if (why.empty() && next < members.size) why = members.waits->refusal();
    return next == members.size || !why.empty();
  });
  if (is_decided) return why;
  return "rank " + std::to_string(next) + " has not come within " + deadline.text();
}

IKEBANA_INLINE void FailureLog::report(const std::string& prefix, RankReport own) noexcept {
  own.out_of_memory = own.out_of_memory && repeats_;
  const auto first = within(std::chrono::milliseconds(1500), [prefix, own](Shared& s) {
    const RankReport named{"rank " + std::to_string(s.rank) + ": " + own.text, own.out_of_memory};
    return named.leave(*s.store, prefix).written();
  });
  first_ran_out_ = first && RankReport::says_out_of_memory(*first);
}

IKEBANA_INLINE std::string FailureLog::reason(const std::string& prefix, const std::string& error) {
  const auto written = within(std::chrono::milliseconds(1400), [prefix](Shared& s) {
    const RankReport found = asked(s, prefix);
    leave(s, prefix);
    return found.written();
  });
  if (!written) {
    const std::string ended = shared_->watch->ended();
    return "rank 0, whose process holds the store of the ranks, does not answer any more" +
           (ended.empty() ? ended : "; " + ended) + " (" + error + ")";
  }
  const auto [text, out_of_memory] = RankReport::read(*written);
  first_ran_out_ = out_of_memory;
  return text.empty() ? error : text + (text.rfind("rank ", 0) == 0 ? "" : " (" + error + ")");
}

IKEBANA_INLINE bool FailureLog::is_report(const std::string& reason) {
  if (!reason.starts_with("rank ")) return false;
  const std::size_t end = reason.find_first_not_of("0123456789", 5);
  return end != std::string::npos && end > 5 && reason[end] == ':';
}

IKEBANA_INLINE void FailureLog::await_all(const std::string& prefix) {
  first_ran_out_ = false;
  if (const std::string ended = shared_->watch->ended(); !ended.empty()) throw RankFailed(ended);
  const auto text = within(shared_->timeout + std::chrono::milliseconds(500),
                           [prefix](Shared& s) { return await_ranks(s, prefix); });
  if (!text) throw RankFailed("the process of rank 0 does not answer: look at what it printed");
  if (!text->empty()) throw RankFailed(*text);
}

IKEBANA_INLINE std::string FailureLog::differs(const std::string& prefix, const RankPost& post) {
  const auto text = within(post.limit + std::chrono::milliseconds(1500),
                           [prefix, post](Shared& s) { return compare_posts(s, prefix, post); });
  if (!text) throw RankFailed("the process of rank 0 does not answer: look at what it printed");
  if (text->starts_with('!')) throw RankFailed(text->substr(1));
  return *text;
}

IKEBANA_INLINE void FailureLog::abandon(const std::string& prefix,
                                        const std::string& why) noexcept {
  within(std::chrono::milliseconds(700), [prefix, why](Shared& s) {
    s.store->set(prefix + "abandoned", bytes_of(why));
    return std::string();
  });
}

IKEBANA_INLINE void FailureLog::throw_apart(std::int64_t rank, const std::string& why) {
  throw RankFailed("ranks: rank " + std::to_string(rank) +
                   " could not meet the other ranks: " + why +
                   ". Let every rank make the same calls, within the time limit of their "
                   "ProcessGroup.");
}

IKEBANA_INLINE void FailureLog::leave(const std::string& prefix) noexcept {
  within(std::chrono::milliseconds(1500), [prefix](Shared& s) {
    leave(s, prefix);
    return std::string();
  });
}

IKEBANA_INLINE bool FailureLog::is_abandoned(const std::string& prefix) {
  const auto text = within(std::chrono::milliseconds(1500), [prefix](Shared& s) {
    return std::string(s.store->check({prefix + "abandoned"}) ? "1" : "");
  });
  return text && !text->empty();
}

IKEBANA_INLINE FailureLog::Missing FailureLog::missing(Shared& s, const std::string& prefix) {
  Missing found;
  for (std::int64_t r = 0; r < s.size; ++r) {
    if (s.store->check({prefix + "seen/" + std::to_string(r)})) continue;
    found.names += (found.names.empty() ? "rank " : ", rank ") + std::to_string(r);
    found.have_ended = found.have_ended && s.watch->has_ended(r);
  }
  return found;
}

IKEBANA_INLINE std::string FailureLog::others(const Shared& s) {
  if (s.connections < 2) return {};
  return ", or waits in another trainer of its ProcessGroup, which has " +
         std::to_string(s.connections) + ": make and step trainers in the same order on all ranks";
}

IKEBANA_INLINE RankReport FailureLog::asked(Shared& s, const std::string& prefix) {
  s.store->set(prefix + "seen/" + std::to_string(s.rank), bytes_of("1"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
  Missing of;
  auto silent = [&] {
    return RankReport{of.names + " ended, or did not answer in time" + others(s)};
  };
  try {
    for (;;) {
      of = missing(s, prefix);  // first, and reports second: a rank reports before it ends
      if (RankReport::is_in(*s.store, prefix)) return RankReport::of(*s.store, prefix);
      if (of.names.empty()) return {};
      if (of.have_ended) return {of.names + " ended"};
      if (std::chrono::steady_clock::now() > end) return silent();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  } catch (const std::exception&) {  // rank 0 has waited as long, and has ended with the store
    if (of.names.empty()) throw;
    return silent();
  }
}

IKEBANA_INLINE void FailureLog::leave(Shared& s, const std::string& prefix) noexcept {
  try {
    auto heard = [&](std::int64_t r) { return prefix + "heard/" + std::to_string(r); };
    s.store->set(heard(s.rank), bytes_of("1"));
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    while (s.rank == 0 && std::chrono::steady_clock::now() < end) {
      std::vector<std::string> others;
      for (std::int64_t r = 1; r < s.size; ++r)
        if (!s.watch->has_ended(r)) others.push_back(heard(r));
      if (others.empty() || s.store->check(others)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  } catch (const std::exception&) {  // the store has ended
  }
}

}  // namespace ikebana::detail
