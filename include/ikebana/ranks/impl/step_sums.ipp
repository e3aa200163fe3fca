#pragma once
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/ranks/step_sums.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void sum_over(const Ranks& ranks, StepSums& sums) {
  if (&ranks.slices() != &ranks.data()) {
    ranks.data().sum(sums.data);
    if (ranks.slices().size() > 1 && !sums.slices.empty()) ranks.slices().sum(sums.slices);
    return;
  }
  const auto slices = std::ssize(sums.slices);
  std::vector<at::Tensor> all = std::move(sums.slices);
  all.insert(all.end(), sums.data.begin(), sums.data.end());
  ranks.data().sum(all);
  sums.slices.assign(all.begin(), all.begin() + slices);
  sums.data.assign(all.begin() + slices, all.end());
}

IKEBANA_INLINE std::string ranks_where_not(RankGroup& group, bool finite_here) {
  std::string ranks;
  const auto all = exchange_in(group, "a loss that is not finite", finite_here ? "" : "!");
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty())
      ranks += (ranks.empty() ? " on rank " : ", rank ") + std::to_string(rank);
  return ranks;
}

IKEBANA_INLINE void throw_other_parameters(std::size_t rank) {
  throw RanksDiffer("step: rank " + std::to_string(rank) +
                    " updates other parameters than rank 0, which has gradients of others. A "
                    "policy that takes gradients out must do so on every rank.");
}

IKEBANA_INLINE void agree(RankGroup& group, const UpdateNumbers& own) {
  const auto all =
      exchange_in(group, "the end of a step", {reinterpret_cast<const char*>(&own), sizeof own});
  UpdateNumbers first, other;
  std::memcpy(&first, all[0].data(), sizeof first);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    std::memcpy(&other, all[rank].data(), sizeof other);
    if (other.rejects != first.rejects)
      throw RanksDiffer("step: rank " + std::to_string(rank) +
                        (other.rejects != 0 ? " rejects" : " makes") +
                        " the update, and rank 0 does not. A policy that decides by numbers of its "
                        "rank must add them up first: ranks.data().sum(...).");
    if (other.order != first.order)
      throw RanksDiffer(
          "step: rank " + std::to_string(rank) +
          " ran the units of the model in another order than rank 0. Their parameters "
          "are cut, so that they compute together: run the same units in the same order "
          "on every rank.");
    if (other.indices != first.indices) throw_other_parameters(rank);
  }
}

}  // namespace ikebana::detail
