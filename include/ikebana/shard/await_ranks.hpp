#pragma once
// How ranks meet before they connect: none waits for a rank whose process it sees to have ended.
#include <ikebana/shard/process_group.hpp>
#include <stdexcept>

namespace ikebana::detail {

/// Returns when all ranks have come to `prefix`: nothing, or why they will not meet there.
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

/// Calls `f`, which connects ranks, by a thread of its own. That is left behind where a rank's
/// process ends meanwhile, for which Gloo waits until the time limit, or where the store does not
/// answer, for which it waits for ever. Throws then; which rank is missing is to be asked.
template <class F>
auto while_ranks_live(const GroupMembers& members, F f) {
  std::packaged_task<decltype(f())()> task(std::move(f));
  auto result = task.get_future();
  std::thread(std::move(task)).detach();
  const Deadline deadline(members.timeout + std::chrono::milliseconds(200));  // after Gloo's own
  while (result.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    if (const std::string ended = members.watch->ended(); !ended.empty())
      throw std::runtime_error(ended);
    if (deadline.is_over()) throw std::runtime_error("the ranks did not connect in time");
  }
  return result.get();
}

}  // namespace ikebana::detail
