#pragma once
// What a trainer tells of its ranks, and what a loop over steps on several of them needs.
#include <ikebana/core/around_step.hpp>

namespace ikebana {

/// The methods of `Self`, a trainer, that are about the ranks that train its model.
template <class Self>
class OnRanks {
 public:
  /// The ranks that train this model: `ranks().data().rank()`. `OneRank` without a policy on shard.
  auto ranks() { return self().core().ranks(); }
  /// How many ranks train this model, and which of them this is.
  std::int64_t world_size() const { return self().core().ranks().data().size(); }
  std::int64_t rank() const { return self().core().ranks().data().rank(); }
  /// For a loop over steps on several ranks, all of which must end after the same step: the next
  /// step tells the others what this rank wants, at no cost. Returns what all ranks know since the
  /// last step; with one rank, the wish itself.
  StopWish agree_to_stop(StopWish wish) {
    if (std::decay_t<decltype(self().core())>::one_rank) return wish;
    self().core().step.wants_stop = wish;
    return self().core().step.all_stop;
  }
  /// The same at once, which every rank calls, e.g. between two epochs.
  StopWish agree_to_stop_now(StopWish wish) {
    return detail::agree_to_stop_now(self().core(), wish);
  }
  /// The present exception ends a loop on this rank: reports it to the other ranks, so that none
  /// waits for this one. `fit`, a step and an evaluation report theirs.
  void report_exception() noexcept {
    self().core().mechanisms.shard.offer_exception(std::current_exception());
  }

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace ikebana
