#pragma once
// Ends a step's gradients: makes the sums over ranks, and the agreement before an update.
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana {

/// The tensors that are summed over ranks when all gradients are there, in one exchange for each
/// group.
struct StepSums {
  std::vector<at::Tensor> data;    ///< the sums over all ranks
  std::vector<at::Tensor> slices;  ///< the sums over the ranks among which parameters are cut
};

namespace detail {

/// Adds up the sums over the ranks of each group; if both groups are the same, in one exchange.
void sum_over(const Ranks& ranks, StepSums& sums);

/// Returns a text such as " on rank 1, rank 3" with the ranks whose loss is not finite. It is empty
/// if each loss is finite, but their sum overflows.
std::string ranks_where_not(RankGroup& group, bool finite_here);

[[noreturn]] void throw_other_parameters(std::size_t rank);

/// The numbers in which ranks must agree when they update: 1 if they reject the update, a hash of
/// the order in which they ran units, if parameters are cut, and a hash of the masters that have
/// gradients.
struct UpdateNumbers {
  std::uint64_t rejects, order, indices;
};

/// Makes the last call before an update, in which every rank takes part, or no rank updates. Throws
/// BadModel if ranks differ in the numbers.
void agree(RankGroup& group, const UpdateNumbers& own);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/ranks/impl/step_sums.ipp>
#endif
