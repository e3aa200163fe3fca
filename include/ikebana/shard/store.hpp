#pragma once
// Defines the store by which the ranks of a world meet.
#include <chrono>
#include <ikebana/detail/torch_c10d.hpp>
#include <ikebana/error.hpp>
#include <ikebana/shard/launch/world.hpp>

namespace ikebana {

/// Makes the store of the world, which has its own keys: all ranks call this, in the same order,
/// and get the same store. Rank 0 serves it, or torchrun's agent; the store of one rank is local.
/// It returns when all ranks have come, and calls of the store have the same time limit. Call
/// `finish_store` before the process ends.
///
/// Throws BadValue if the port is in use or two ranks contradict each other, and RankFailed if a
/// rank does not come in time.
c10::intrusive_ptr<c10d::Store> make_store(const World& world, std::chrono::milliseconds timeout);

/// Ends the use of a store that `make_store` made; each rank calls it once. Rank 0, which serves
/// the store, returns when all others have called this, and may end then: before, it would cut off
/// their calls. Throws RankFailed if a rank does not call it within the time.
void finish_store(c10d::Store& store, const World& world, std::chrono::milliseconds timeout);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/impl/store.ipp>
#endif
