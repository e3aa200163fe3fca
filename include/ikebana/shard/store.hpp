#pragma once
// The store at which the ranks of a world meet.
#include <ikebana/error.hpp>
#include <ikebana/shard/launch/meeting.hpp>

namespace ikebana {
namespace detail {

/// Calls `f`, which asks rank 0 until the deadline. Throws RankFailed where an answer does not
/// come: the store's clients wait for one for ever, as of a process that is stopped.
template <class F>
auto answered(const std::string& where, const World& world, const Deadline& deadline, F f) {
  auto result = returned_within(deadline.left() + std::chrono::milliseconds(300), std::move(f));
  if (result) return *result;
  throw RankFailed(where + ": " + (world.agent_store ? "torchrun's agent" : "rank 0") + " at " +
                   address_of(world) + " does not answer any more. Is its process stopped?");
}

}  // namespace detail

/// The store of the world, with keys of its own: all ranks call this, in the same order, and get
/// the same store. Rank 0 is its server, under torchrun its agent; of one rank the store is local.
/// It returns when all ranks have come, and its calls have the same time limit. Call
/// `finish_store` before the process ends.
///
/// Throws BadValue where the port is in use or two ranks contradict each other, and RankFailed
/// where a rank does not come in time.
c10::intrusive_ptr<c10d::Store> make_store(const World& world, std::chrono::milliseconds timeout);

/// The last use of a store that `make_store` made, once by each rank. Rank 0, which serves it,
/// returns when all others have called this, and then may end: before, it would cut off their
/// calls. Throws RankFailed where a rank does not call it within the time.
void finish_store(c10d::Store& store, const World& world, std::chrono::milliseconds timeout);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/impl/store.ipp>
#endif
