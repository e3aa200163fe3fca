#pragma once
// Keeps the ranks of an evaluation together: each evaluates its own batches, and the result is that
// of all.
#include <ikebana/evaluate/loss_sums.hpp>
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana::detail {

/// Takes turns with other ranks. If parameters are cut, the ranks that share them must call forward
/// together: each computes its own batch, or a dummy if it has no batch left. All ranks meet at the
/// end.
class RankTurns {
 public:
  using WithCount = c10::function_ref<void(std::size_t)>;
  explicit RankTurns(const Ranks& ranks) : ranks_(ranks) {}
  /// Returns whether a rank that has no batch left computes dummies.
  bool needs_dummies() const { return ranks_.slices().size() > 1; }
  /// Call it before each batch of this rank.
  void begin();
  /// Call it when this rank has no batch left. Calls `dummies(count)` while another rank of its
  /// group has a batch. Then gives all sums the same terms, also on a rank that had no batch. Each
  /// exchange, and the computation after it, is within `around(f)`, which calls `f(count)`.
  void end(LossSums& sums, c10::Device device, c10::function_ref<void(WithCount)> around,
           WithCount dummies);

 private:
  /// The messages of a rank: that it has a batch, or is at its end, followed by the terms of its
  /// loss so far.
  static inline const std::string batch_ = "b", end_ = "e";

  /// Returns whether all ranks of the group are at their end.
  bool turn(const std::string& own);

  Ranks ranks_;
  std::vector<std::string> all_;
};
/// Takes the place of RankTurns if there is one rank.
class NoTurns {
 public:
  explicit NoTurns(OneRank) {}
  static constexpr bool needs_dummies() { return false; }
  void begin() {}
};
template <class RanksT>
using BatchTurns = std::conditional_t<is_one_rank<RanksT>, NoTurns, RankTurns>;

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/evaluate/impl/over_ranks.ipp>
#endif
