#pragma once
// An evaluation on several ranks: each evaluates its own batches, and the result is that of all.
#include <ikebana/evaluate/loss_sums.hpp>
#include <ikebana/ranks/step_calls.hpp>

namespace ikebana::detail {

/// Where parameters are cut, a forward is a call of the ranks that share them: keeps these at the
/// same batch, those without one at a dummy. All ranks meet at the end.
class RankTurns {
 public:
  using WithCount = c10::function_ref<void(std::size_t)>;
  explicit RankTurns(const Ranks& ranks) : ranks_(ranks) {}
  /// True where a rank that has no batch left computes dummies.
  bool needs_dummies() const { return ranks_.slices().size() > 1; }
  /// Before a batch of this rank.
  void begin();
  /// This rank has no batch left: calls `dummies(count)` while another one of its group has. Then
  /// all sums have the same terms, also those of a rank that had no batch. Each exchange, and what
  /// is computed after it, is within `around(f)`, which calls `f(count)`.
  void end(LossSums& sums, c10::Device device, c10::function_ref<void(WithCount)> around,
           WithCount dummies);

 private:
  /// What a rank tells the others: that it has a batch, or the terms of its loss so far.
  static inline const std::string batch_ = "b", end_ = "e";

  /// Returns whether all ranks of the group are at their end.
  bool turn(const std::string& own);

  Ranks ranks_;
  std::vector<std::string> all_;
};
/// The same where there is one rank.
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
