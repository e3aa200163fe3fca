#pragma once
// An evaluation on several ranks: each evaluates its own batches, and the result is that of all.
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana::detail {

/// Keeps ranks at the same batch where a forward is a call of all of them, since parameters are
/// cut.
template <class Ranks>
class BatchTurns {
 public:
  explicit BatchTurns(const Ranks& ranks) : ranks_(ranks) {}
  void begin() {
    ++batches_;
    if (ranks_.slices().size() > 1) check("a batch");
  }
  /// There is no further batch.
  void end() {
    if (ranks_.slices().size() > 1) check("the end");
    else if (ranks_.data().any(batches_ == 0))
      throw BadBatch("evaluate: a rank has no batch. Give each at least one.");
  }

 private:
  void check(const std::string& own) {
    const std::vector<std::string> all = ranks_.data().exchange(own);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank] != all[0])
        throw BadBatch("evaluate: rank " + std::to_string(rank) + " is at " + all[rank] +
                       ", and rank 0 at " + all[0] +
                       ". Give every rank the same number of batches: their parameters are cut, so "
                       "that they compute together.");
  }

  Ranks ranks_;
  std::int64_t batches_ = 0;
};
template <>
class BatchTurns<OneRank> {
 public:
  explicit BatchTurns(OneRank) {}
  void begin() {}
  void end() {}
};

}  // namespace ikebana::detail
