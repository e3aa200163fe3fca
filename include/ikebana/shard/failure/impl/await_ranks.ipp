#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/failure/await_ranks.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string await_ranks(GroupMembers& members, const std::string& prefix) {
  c10d::Store& store = *members.store;
  auto came = [&](std::int64_t rank) { return prefix + "came/" + std::to_string(rank); };
  store.set(came(members.rank), bytes_of("1"));
  const Deadline deadline(members.timeout);
  std::int64_t next = 0;
  std::string why;
  const bool is_decided = deadline.wait([&] {
    while (next < members.size && store.check({came(next)})) ++next;
    members.watch->look(store);
    why = members.watch->ended();  // one that gave up before has said why
    if (store.check({prefix + "abandoned"}))
      why =
          "another rank does not wait any longer, since " + store.get_to_str(prefix + "abandoned");
    if (why.empty() && next < members.size) why = members.waits->refusal();
    return next == members.size || !why.empty();
  });
  if (is_decided) return why;
  return "rank " + std::to_string(next) + " has not come within " + deadline.text();
}

}  // namespace ikebana::detail
