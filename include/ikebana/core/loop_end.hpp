#pragma once
// The end of a loop over steps on several ranks, which all end it at the same step.
#include <algorithm>
#include <ikebana/ranks/together.hpp>
#include <utility>

namespace ikebana::detail {

/// The end of a loop over steps on several ranks. A trainer's methods set this rank's part; a step,
/// or `agree_to_stop_now`, tells it to the other ranks and sets theirs.
struct LoopEnd {
  bool has_ended = false;      ///< this rank's loader; it takes part in the steps of other ranks
  StopWish of_this_rank = {};  ///< the next step tells the others
  StopWish of_all_ranks = {};  ///< as they knew it when the last step opened
};

/// Exchanges the wishes of all ranks now, including wishes since the last step.
template <class Core>
StopWish agree_to_stop_now(Core& core, StopWish wish) {
  if constexpr (Core::one_rank) {
    return wish;
  } else {
    LoopEnd& end = core.loop_end;
    wish = std::max(wish, std::exchange(end.of_this_rank, StopWish::No));
    end.of_all_ranks =
        together(core, "an agreement to stop", [&] { return max_of(core.ranks().data(), wish); });
    return end.of_all_ranks;
  }
}

}  // namespace ikebana::detail
