#pragma once
// How ranks meet before they connect: none waits for a rank whose process it sees to have ended.
#include <ikebana/shard/launch/meeting.hpp>
#include <ikebana/shard/process_group.hpp>
#include <stdexcept>

namespace ikebana::detail {

/// Returns when all ranks have come to `prefix`: nothing, or why they will not meet there.
std::string await_ranks(GroupMembers& members, const std::string& prefix);

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

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/failure/impl/await_ranks.ipp>
#endif
