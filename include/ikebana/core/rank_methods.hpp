#pragma once
// The methods of a trainer for programs that run on several ranks.
#include <ikebana/core/around_step.hpp>
#include <optional>

namespace ikebana {

/// The base of `Trainer`, which is `Self`.
template <class Self>
class RankMethods {
 public:
  /// The ranks that train this model: `ranks().data().rank()`. `OneRank` without a policy on shard.
  auto ranks() { return core().ranks(); }
  /// How many ranks train this model, and which of them this is.
  std::int64_t world_size() const { return core().ranks().data().size(); }
  /// Which of them this is, from 0.
  std::int64_t rank() const { return core().ranks().data().rank(); }
  /// For a loop over steps on several ranks, all of which must end after the same step: the next
  /// step tells the others what this rank wants, at no cost. Returns what all ranks know since the
  /// last step; with one rank, the wish itself.
  StopWish agree_to_stop(StopWish wish) {
    if (one_rank()) return wish;
    core().step.wants_stop = wish;
    return core().step.all_stop;
  }
  /// The same at once, which every rank calls, e.g. between two epochs.
  StopWish agree_to_stop_now(StopWish wish) { return detail::agree_to_stop_now(core(), wish); }
  /// The present exception ends a loop on this rank: reports it to the other ranks, so that none
  /// waits for this one. `fit`, a step and an evaluation report theirs.
  void report_exception() noexcept {
    core().mechanisms.shard.offer_exception(std::current_exception());
  }
  /// For a loop over steps on several ranks whose loaders may give different numbers of batches, as
  /// PyTorch's Join: at the end of its loader a rank calls this until the result is empty, and
  /// takes part in the steps of the others with a batch of weight zero in the shapes of `like`, any
  /// batch of before. Empty, and no step was made, where no rank has a batch any more; with one
  /// rank at once. `like` may be a range of batches; where it holds none, the others must have none
  /// either.
  template <class Batch>
  std::optional<Report> join_step(const Batch& like) {
    if constexpr (one_rank()) {
      return (void)like, std::nullopt;
    } else {
      if (world_size() == 1) return std::nullopt;
      const detail::FlagScope ended(core().step.has_ended);
      try {
        return self().step(detail::without_batch(like));
      } catch (const detail::AllRanksEnded&) {
        return std::nullopt;
      }
    }
  }
  /// For a loop over steps: where the batch of the next step lies in the data, for its report.
  /// `fit` says it by itself.
  void set_position(std::optional<BatchPosition> position) { core().step.position = position; }
  /// The ranks where there are several.
  std::optional<Ranks> several_ranks() {
    if constexpr (one_rank()) return std::nullopt;
    else return world_size() > 1 ? std::optional<Ranks>(ranks()) : std::nullopt;
  }
  /// Calls `f`, which ends in detail::all_or_none, in a call of all ranks.
  template <class F>
  void together_or_not(const char* call, F&& f) {
    detail::together_or_not(core(), call, f);
  }
  /// True for a recipe that runs on one rank.
  static constexpr bool one_rank() {
    return std::decay_t<decltype(std::declval<RankMethods&>().core())>::one_rank;
  }

 private:
  Self& self() const { return const_cast<Self&>(static_cast<const Self&>(*this)); }
  auto& core() const { return self().core(); }
};

}  // namespace ikebana
