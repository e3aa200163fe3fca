#pragma once
// An evaluation on several ranks: each evaluates its own batches, and the result is that of all.
#include <ikebana/ranks/step_calls.hpp>

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
    const bool is_whole = ranks_.slices().size() == 1;
    check(is_whole && batches_ == 0 ? "the end without a batch" : "the end");
  }

 private:
  void check(const std::string& own) {
    const std::vector<std::string> all = exchange_in(ranks_.data(), "an evaluation", own);
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank] != all[0])
        throw BadBatch(
            "evaluate: rank " + std::to_string(rank) + " is at " + all[rank] + ", and rank 0 at " +
            all[0] +
            ". Give every rank at least one batch, and where parameters are cut, so that "
            "ranks compute together, the same number of batches.");
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
