#pragma once
// Reports to the other ranks that this one throws, in a step or in another call of all ranks. They
// notice it while they wait: shard/failure/.
#include <ikebana/ranks/step_opening.hpp>

namespace ikebana::detail {

/// Calls `f`. If it throws, reports that to the other ranks, so that they do not wait for this one.
template <class Core, class F>
decltype(auto) reported_to_ranks(Core& core, F&& f) {
  if constexpr (Core::one_rank) {
    return f();
  } else {
    try {
      return f();
    } catch (const AllRanksEnded&) {
      throw;
    } catch (...) {
      core.parameters.abort();
      core.mechanisms.shard.offer_exception(std::current_exception());
      throw;
    }
  }
}

}  // namespace ikebana::detail
