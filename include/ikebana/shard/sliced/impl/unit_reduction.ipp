#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/sliced/unit_reduction.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void RunningSum::add(const at::Tensor& one, bool is_own) {
  if (!sum_.defined()) sum_ = one, is_own_ = is_own;
  else if (!std::exchange(is_own_, true)) sum_ = sum_ + one;
  else sum_.add_(one);
}

IKEBANA_INLINE UnitReduction::UnitReduction(Subgroup& group, int tag, const UnitCut& cut,
                                            Tensors gradients, const DTypes& dtypes,
                                            c10::Device device)
    : cut_(cut), gradients_(std::move(gradients)), rank_(group.rank()) {
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    if (at::Tensor& g = gradients_[i]; g.defined()) g = cut.in_rows(g.to(dtypes[i]), i);
  const auto ranks = static_cast<std::size_t>(group.size());
  received_.resize(ranks);
  TensorsOfRanks to(ranks), from(ranks), flags_to(ranks), flags_from(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    if (rank == rank_) continue;
    SliceMessage(cut, rank, dtypes, device, slices(rank)).add_to(to[r], flags_to[r]);
    received_[r].emplace(cut, rank_, dtypes, device).add_to(from[r], flags_from[r]);
  }
  transfer_ = SliceTransfer(group, tag, device, std::move(to), std::move(from), std::move(flags_to),
                            std::move(flags_from));
}

IKEBANA_INLINE Tensors UnitReduction::finish(Subgroup& group, const Tensors& before) {
  transfer_.receive(group);
  const Tensors own = slices(rank_);
  Tensors sums;
  for (std::size_t i = 0; i < cut_.count(); ++i)
    sums.push_back(sum(i, own[i], before.empty() ? at::Tensor() : before[i]));
  gradients_.clear(), received_.clear();
  return sums;
}

IKEBANA_INLINE Tensors UnitReduction::slices(std::int64_t rank) const {
  Tensors all(gradients_.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (gradients_[i].defined()) all[i] = cut_.slice(gradients_[i], i, rank);
  return all;
}

IKEBANA_INLINE at::Tensor UnitReduction::sum(std::size_t i, const at::Tensor& own,
                                             const at::Tensor& before) const {
  RunningSum sum;
  if (before.defined()) sum.add(before, !cut_.is_small(i));
  for (const auto& one : received_) {
    if (!one && own.defined()) sum.add(own, /*is_own=*/false);
    else if (one && one->has(i)) sum.add(one->slice(i), !cut_.is_small(i));
  }
  return sum.result();
}

}  // namespace ikebana::detail
