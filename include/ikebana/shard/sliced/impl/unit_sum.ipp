#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/sliced/unit_sum.hpp>

namespace ikebana::detail {

IKEBANA_INLINE Tensors UnitLayout::slices(const Tensors& whole, std::int64_t rank) const {
  Tensors all;
  for (std::size_t i = 0; i < whole.size(); ++i) all.push_back(cut.slice(whole[i], i, rank));
  return all;
}

IKEBANA_INLINE UnitSum::UnitSum(ShardGroups& groups, std::size_t unit, const UnitLayout& layout,
                                Tensors gradients, c10::Device device, bool ordered)
    : of_slices_(groups.slices, MessageTag::reduce(unit), layout.cut, std::move(gradients),
                 layout.dtypes, device) {
  if (!groups.has_copies()) return;
  if (ordered)
    of_copies_.emplace<OrderedCopySum>(groups.copies, MessageTag::reduce(unit), layout.cut,
                                       groups.slices.rank(), layout.dtypes, device);
  else of_copies_.emplace<UnorderedCopySum>(unit, layout.among_copies, layout.dtypes, device);
}

IKEBANA_INLINE void UnitSum::advance(ShardGroups& groups) {
  on_copies([&](auto& of_copies) {
    if (is_begun_) return of_copies.advance(groups.copies);
    begin(groups, of_copies);
  });
}

IKEBANA_INLINE Tensors UnitSum::finish(ShardGroups& groups) {
  if (!groups.has_copies()) return of_slices_.finish(groups.slices);
  Tensors sums;
  on_copies([&](auto& of_copies) {
    if (!is_begun_) begin(groups, of_copies);
    sums = of_copies.finish(groups.copies);
  });
  return sums;
}

IKEBANA_INLINE SliceTransfer UnitSum::take_sent() {
  SliceTransfer sent;
  on_copies([&](auto& of_copies) { sent = of_copies.take_sent(); });
  return sent;
}

IKEBANA_INLINE bool UnitSums::may_begin(std::size_t unit, const ShardGroups& groups) const {
  return pending_.size() < (groups.has_copies() ? 3 : 2) &&
         std::none_of(
             pending_.begin(), pending_.end(),
             [unit](const Pending& one) { return one.unit == unit; });
}

IKEBANA_INLINE void UnitSums::begin(ShardGroups& groups, std::size_t unit, UnitSum sum) {
  pending_.push_back({unit, std::move(sum)});
  for (std::size_t i = 0; i + 1 < pending_.size(); ++i) pending_[i].sum.advance(groups);
}

IKEBANA_INLINE UnitSums::Ended UnitSums::end_oldest(ShardGroups& groups) {
  Pending oldest = std::move(pending_.front());
  pending_.pop_front();
  Tensors sums = oldest.sum.finish(groups);
  return {oldest.unit, std::move(sums), oldest.sum.take_sent()};
}

}  // namespace ikebana::detail
