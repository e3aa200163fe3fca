#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/sliced/copy_sum.hpp>

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
  sent_.wait(copies);  // the others have had the partial sum
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

}  // namespace ikebana::detail
