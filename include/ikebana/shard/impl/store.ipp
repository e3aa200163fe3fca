#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/shard/launch/meeting.hpp>
#include <ikebana/shard/store.hpp>

namespace ikebana {
namespace detail {

/// Calls `f`, which asks rank 0 until the deadline. Throws RankFailed if no answer comes: the
/// store's clients would wait without end, e.g. if its process is stopped.
template <class F>
auto answered(const std::string& where, const World& world, const Deadline& deadline, F f) {
  auto result = returned_within(deadline.left() + std::chrono::milliseconds(300), std::move(f));
  if (result) return *result;
  throw RankFailed(where + ": " + (world.agent_store ? "torchrun's agent" : "rank 0") + " at " +
                   address_of(world) + " does not answer any more. Is its process stopped?");
}

}  // namespace detail

IKEBANA_INLINE c10::intrusive_ptr<c10d::Store> make_store(const World& world,
                                                          std::chrono::milliseconds timeout) {
  world.check();
  if (timeout.count() <= 0)
    throw BadValue("make_store: the timeout is " + std::to_string(timeout.count()) +
                   " ms; it must be more than 0.");
  if (world.size == 1) return c10::make_intrusive<c10d::HashStore>();
  const detail::Deadline deadline(timeout);
  auto server = detail::connect(world, deadline);
  server->setTimeout(timeout);
  const std::string job = "ikebana/" + world.job;
  const auto keys = c10::make_intrusive<c10d::PrefixStore>(job, server);
  const std::string token =
      detail::answered("make_store: " + detail::rank_text(world), world, deadline,
                       [=] { return detail::Meeting(*keys, world, deadline).token(); });
  return c10::make_intrusive<c10d::PrefixStore>(job + "/" + token, std::move(server));
}

IKEBANA_INLINE void finish_store(c10d::Store& store, const World& world,
                                 std::chrono::milliseconds timeout) {
  if (world.size == 1 || world.agent_store) return;
  const detail::Deadline deadline(timeout);
  const std::string where = "finish_store: " + detail::rank_text(world);
  const auto own = c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store);
  auto finish = [=]() -> std::optional<std::int64_t> {  // the number of ranks that have finished,
                                                        // if not all have
    if (world.rank != 0 && own->add("finished", 1) == world.size - 1) own->set("all", "1");
    if (world.rank != 0 || deadline.wait(*own, "all")) return {};
    return own->add("finished", 0);
  };
  std::optional<std::int64_t> finished;
  try {
    finished = detail::answered(where, world, deadline, finish);
  } catch (const c10::Error& error) {
    throw RankFailed(where + " at " + detail::address_of(world) +
                     ": rank 0 has ended before. Let its process call finish_store, too. (" +
                     detail::message_of(error) + ")");
  }
  if (!finished) return;
  throw RankFailed(where + " at " + detail::address_of(world) + " waited " + deadline.text() +
                   " for the other ranks, of which " + std::to_string(*finished) +
                   " have finished. Another rank failed, or still trains: look at what the others "
                   "printed, or give finish_store more time.");
}

}  // namespace ikebana
