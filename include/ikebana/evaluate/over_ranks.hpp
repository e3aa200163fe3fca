#pragma once
// An evaluation on several ranks: each evaluates its own batches, and the result is that of all.
#include <ikebana/evaluate/loss_sums.hpp>
#include <ikebana/ranks/step_calls.hpp>

namespace ikebana::detail {

/// Where parameters are cut, a forward is a call of the ranks that share them: keeps these at the
/// same batch, those without one at a dummy. All ranks meet at the end.
template <class Ranks>
class BatchTurns {
 public:
  explicit BatchTurns(const Ranks& ranks) : ranks_(ranks) {}
  /// True where a rank that has no batch left computes dummies.
  bool needs_dummies() const { return ranks_.slices().size() > 1; }
  /// Before a batch of this rank.
  void begin() {
    if (needs_dummies()) turn(batch_);
  }
  /// This rank has no batch left: calls `dummies(count)` while another one of its group has. Then
  /// all sums have the same terms, also those of a rank that had no batch. Each exchange, and what
  /// is computed after it, is within `around(f)`, which calls `f(count)`.
  template <class Around, class Dummies>
  void end(LossSums& sums, c10::Device device, const Around& around, const Dummies& dummies) {
    const std::string own = end_ + sums.terms();
    bool all_ended = !needs_dummies();
    while (!all_ended)
      around([&](std::size_t count) {
        all_ended = turn(own);
        if (!all_ended) dummies(count);
      });
    if (&ranks_.slices() != &ranks_.data())
      around(
          [&](std::size_t) { all_ = exchange_in(ranks_.data(), "the end of an evaluation", own); });
    for (const std::string& one : all_)
      if (one != end_) return sums.take_terms(one.substr(end_.size()), device);
  }

 private:
  /// What a rank tells the others: that it has a batch, or the terms of its loss so far.
  static inline const std::string batch_ = "b", end_ = "e";

  /// Returns whether all ranks of the group are at their end.
  bool turn(const std::string& own) {
    all_ = exchange_in(ranks_.slices(), "an evaluation", own);
    const bool all_ended =
        std::none_of(all_.begin(), all_.end(), [](const auto& one) { return one == batch_; });
    if (all_ended) return true;
    for (const std::string& one : all_)
      if (one == end_)
        throw BadBatch("evaluate: rank " +
                       std::to_string(ranks_.slices().rank_in_world(&one - all_.data())) +
                       " has no batch, and other ranks have one. Their parameters are cut, so that "
                       "they compute together: give every rank at least one batch, if only one "
                       "without rows.");
    return false;
  }

  Ranks ranks_;
  std::vector<std::string> all_;
};
template <>
class BatchTurns<OneRank> {
 public:
  explicit BatchTurns(OneRank) {}
  static constexpr bool needs_dummies() { return false; }
  void begin() {}
};

}  // namespace ikebana::detail
