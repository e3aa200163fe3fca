#pragma once
#include <algorithm>
#include <functional>
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/matrices/matrix_rounds.hpp>
#include <numeric>

namespace ikebana::detail {

IKEBANA_INLINE std::vector<std::vector<OwnedMatrix>> matrix_rounds(const std::vector<Slice>& all,
                                                                   std::size_t ranks) {
  auto cost = [&](std::size_t i) {
    return static_cast<double>(all[i].numel()) *
           static_cast<double>(std::min(all[i].sizes[0], all[i].sizes[1]));
  };
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater<>(), cost);
  std::int64_t largest = 0;
  for (const Slice& slice : all) largest = std::max(largest, slice.numel());
  struct Rank {
    double work = 0;
    std::size_t round = 0;
    std::int64_t elements = 0;  // the number in its last round
  };
  std::vector<Rank> each(ranks);
  std::vector<std::vector<OwnedMatrix>> rounds;
  for (const std::size_t i : order) {
    const auto found = std::ranges::min_element(each, {}, &Rank::work);
    found->work += cost(i), found->elements += all[i].numel();
    if (found->elements > largest) ++found->round, found->elements = all[i].numel();
    if (rounds.size() <= found->round) rounds.resize(found->round + 1);
    rounds[found->round].push_back({i, static_cast<std::size_t>(found - each.begin())});
  }
  return rounds;
}

IKEBANA_INLINE MatrixRounds::MatrixRounds(std::vector<CutParameter>& all, RankGroup& ranks)
    : all_(all), ranks_(ranks), size_(static_cast<std::size_t>(ranks.size())) {
  std::vector<Slice> slices;
  for (const CutParameter& one : all) slices.push_back(one.slice());
  rounds_ = matrix_rounds(slices, size_);
}

IKEBANA_INLINE at::Tensor MatrixRounds::rows_of(const at::Tensor& whole, std::size_t rank) const {
  const auto r = static_cast<std::int64_t>(rank), n = static_cast<std::int64_t>(size_);
  const RowRange rows = rows_of_rank(whole.size(0), r, n);
  return whole.narrow(0, rows.first, rows.count);
}

IKEBANA_INLINE void MatrixRounds::return_rows(const Round& round) {
  TensorsOfRanks to(size_), from(size_);
  for (std::size_t i = 0; i < round.rows.size(); ++i)
    if (const at::Tensor& whole = round.wholes[i]; !whole.defined())
      from[(*round.matrices)[i].owner].push_back(round.rows[i]);
    else
      for (std::size_t r = 0; r < size_; ++r)
        if (r != rank()) to[r].push_back(rows_of(whole, r));
  ranks_.begin_swap(to, from);
}

}  // namespace ikebana::detail
