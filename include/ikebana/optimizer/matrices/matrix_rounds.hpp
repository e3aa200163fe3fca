#pragma once
// Rounds in which matrices that are cut among ranks are made whole, each on one rank.
#include <deque>
#include <ikebana/optimizer/engine/parameter_update.hpp>
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana::detail {

/// A matrix, by its index in a list, and the rank that gets the whole matrix.
struct OwnedMatrix {
  std::size_t place, owner;
};
/// Assigns each matrix to a rank and a round. The next largest goes to the rank that has the least
/// work so far; the products of an (n, m) matrix count as n m min(n, m). In a round a rank has one
/// matrix, or several that together are no larger than the largest of all. All ranks find the same
/// rounds.
std::vector<std::vector<OwnedMatrix>> matrix_rounds(const std::vector<Slice>& all,
                                                    std::size_t ranks);

/// Computes with whole matrices although each rank has only some rows: while a round is computed,
/// the rows of the next round arrive and the rows of the round before return. Sends each element
/// twice in BFloat16. Holds, besides the memory of `compute`, three rounds of this rank's own
/// matrices, and its rows of the matrices of other ranks.
class MatrixRounds {
 public:
  MatrixRounds(std::vector<CutParameter>& all, RankGroup& ranks);
  /// For each matrix `take(parameter, rows)` writes this rank's rows, its owner calls
  /// `compute(parameter, whole)`, which changes the whole matrix in place, and `apply(parameter,
  /// rows)` is given this rank's rows of the result. All are BFloat16. A failing message throws
  /// RankFailed.
  template <class Take, class Compute, class Apply>
  void run(const Take& take, const Compute& compute, const Apply& apply) {
    std::deque<Round> under_way;  // the round before, this one, and the next one
    if (!rounds_.empty()) under_way.push_back(gather(rounds_[0], take));
    for (std::size_t k = 0; k < rounds_.size(); ++k) {
      if (k + 1 < rounds_.size()) under_way.push_back(gather(rounds_[k + 1], take));
      Round& now = under_way[k == 0 ? 0 : 1];
      ranks_.finish_swap();
      for (std::size_t i = 0; i < now.wholes.size(); ++i)
        if (now.wholes[i].defined()) compute(all_[(*now.matrices)[i].place], now.wholes[i]);
      return_rows(now);
      if (k > 0) finish(under_way, apply);
    }
    if (!rounds_.empty()) finish(under_way, apply);
  }

 private:
  struct Round {
    const std::vector<OwnedMatrix>* matrices;
    Tensors rows, wholes;  // the rows of each matrix, and the whole one, which is undefined if
                           // another rank has it
  };

  std::size_t rank() const { return static_cast<std::size_t>(ranks_.rank()); }
  at::Tensor rows_of(const at::Tensor& whole, std::size_t rank) const;
  template <class Take>
  Round gather(const std::vector<OwnedMatrix>& matrices, const Take& take) {
    Round round{&matrices, {}, {}};
    TensorsOfRanks to(size_), from(size_);
    for (const auto& [place, owner] : matrices) {
      CutParameter& parameter = all_[place];
      const auto options = parameter.options().dtype(at::kBFloat16);
      const auto& sizes = parameter.slice().sizes;
      const at::Tensor whole = owner == rank() ? at::empty(sizes, options) : at::Tensor();
      const at::Tensor rows = whole.defined()
                                  ? rows_of(whole, rank())
                                  : at::empty({parameter.slice().rows.count, sizes[1]}, options);
      take(parameter, rows);
      if (!whole.defined()) to[owner].push_back(rows);
      else
        for (std::size_t r = 0; r < size_; ++r)
          if (r != rank()) from[r].push_back(rows_of(whole, r));
      round.rows.push_back(rows), round.wholes.push_back(whole);
    }
    ranks_.begin_swap(to, from);
    return round;
  }
  /// The owner has received the rows that this rank sent, so their memory is free.
  void return_rows(const Round& round);
  template <class Apply>
  void finish(std::deque<Round>& under_way, const Apply& apply) {
    ranks_.finish_swap();
    const Round& round = under_way.front();
    for (std::size_t i = 0; i < round.rows.size(); ++i)
      apply(all_[(*round.matrices)[i].place], round.rows[i]);
    under_way.pop_front();
  }

  std::vector<CutParameter>& all_;
  RankGroup& ranks_;
  std::size_t size_;
  std::vector<std::vector<OwnedMatrix>> rounds_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/matrices/impl/matrix_rounds.ipp>
#endif
