#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/sliced/unit_sum.hpp>

namespace ikebana::detail {

IKEBANA_INLINE OrderedCopySum::OrderedCopySum(Subgroup& copies, int tag, const UnitCut& cut,
                                              std::int64_t rank, const DTypes& dtypes,
                                              c10::Device device)
    : tag_(tag), cut_(cut), rank_(rank), dtypes_(dtypes), device_(device) {
  if (copies.rank() > 0) partial_.emplace(message());
  if (!is_last(copies)) sum_.emplace(message());
  if (!device_.is_cpu()) return;
  if (partial_) arriving_partial_ = pass(copies, *partial_, /*sends=*/false);
  if (sum_) arriving_sum_ = pass(copies, *sum_, /*sends=*/false);
}

IKEBANA_INLINE Tensors OrderedCopySum::before(Subgroup& copies) {
  if (!partial_) return {};
  if (!device_.is_cpu()) arriving_partial_ = pass(copies, *partial_, /*sends=*/false);
  arriving_partial_.receive(copies);
  return slices(*partial_);
}

IKEBANA_INLINE void OrderedCopySum::begin(Subgroup& copies, Tensors sums) {
  partial_.reset();
  sent_ = pass(copies, SliceMessage(cut_, rank_, dtypes_, device_, sums), /*sends=*/true);
  if (is_last(copies)) result_ = std::move(sums);
}

IKEBANA_INLINE Tensors OrderedCopySum::finish(Subgroup& copies) {
  if (is_last(copies)) return std::move(result_);
  if (!device_.is_cpu()) arriving_sum_ = pass(copies, *sum_, /*sends=*/false);
  arriving_sum_.receive(copies);
  sent_.wait(copies);  // the others have received the partial sum
  if (copies.rank() + 2 < copies.size()) sent_ = pass(copies, *sum_, /*sends=*/true);
  return slices(*sum_);
}

IKEBANA_INLINE SliceTransfer OrderedCopySum::pass(Subgroup& copies, const SliceMessage& message,
                                                  bool sends) const {
  const std::int64_t n = copies.size();
  const auto other = static_cast<std::size_t>((copies.rank() + (sends ? 1 : n - 1)) % n);
  TensorsOfRanks tensors(static_cast<std::size_t>(n)), flags = tensors, none = tensors;
  message.add_to(tensors[other], flags[other]);
  if (sends) return {copies, tag_, device_, std::move(tensors), none, std::move(flags), none};
  return {copies, tag_, device_, none, std::move(tensors), none, std::move(flags)};
}

IKEBANA_INLINE Tensors OrderedCopySum::slices(const SliceMessage& message) const {
  Tensors all(cut_.count());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (message.has(i)) all[i] = message.slice(i);
  return all;
}

IKEBANA_INLINE void UnorderedCopySum::begin(Subgroup& copies, Tensors sums) {
  reduction_.emplace(copies, MessageTag::reduce(unit_), cut_, std::move(sums), dtypes_, device_);
}

IKEBANA_INLINE void UnorderedCopySum::advance(Subgroup& copies) {
  if (!reduction_) return;
  Tensors rows = reduction_->finish(copies);
  reduction_.reset();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    is_there_.push_back(rows[i].defined());
    if (!is_there_[i])
      rows[i] =
          cut_.new_slice(i, copies.rank(), at::TensorOptions(device_).dtype(dtypes_[i])).zero_();
  }
  gather_.emplace(copies, MessageTag::spread(unit_), cut_, rows);
}

IKEBANA_INLINE Tensors UnorderedCopySum::finish(Subgroup& copies) {
  advance(copies);
  Tensors sums = gather_->finish(copies);
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (!is_there_[i]) sums[i].reset();
  return sums;
}

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
    of_copies_.emplace<OrderedCopySum>(groups.copies, MessageTag::pass(unit), layout.cut,
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
