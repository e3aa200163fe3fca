#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/failure/compare_posts.hpp>
#include <ikebana/shard/failure/rank_report.hpp>
#include <ikebana/shard/launch/meeting.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string compare_posts(GroupMembers& members, const std::string& prefix,
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

}  // namespace ikebana::detail
