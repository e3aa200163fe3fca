#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/shard/sliced/unit_gather.hpp>

namespace ikebana::detail {

IKEBANA_INLINE UnitGather::UnitGather(Subgroup& group, int tag, const UnitCut& cut,
                                      const Tensors& own, Tensors whole)
    : cut_(cut), whole_(std::move(whole)) {
  const auto rank = group.rank();
  const auto ranks = static_cast<std::size_t>(group.size());
  for (const at::Tensor& t : own) dtypes_.push_back(t.scalar_type());
  if (whole_.empty())
    for (std::size_t i = 0; i < own.size(); ++i)
      whole_.push_back(cut.new_whole(i, own[i].options().requires_grad(false)));
  TensorsOfRanks to(ranks), from(ranks);
  const std::vector<at::Tensor> sent = to_send(rank, own);
  for (std::size_t r = 0; r < ranks; ++r) {
    received_.emplace_back();
    if (static_cast<std::int64_t>(r) == rank) continue;
    to[r] = sent;
    from[r] = to_receive(static_cast<std::int64_t>(r), own);
  }
  copy_own(rank, own);
  transfer_ = group.swap(tag, std::move(to), std::move(from), own[0].device());
  if (transfer_.is_begun()) transfer_.note_bytes(received_bytes_, sent_bytes_);
}

IKEBANA_INLINE Tensors UnitGather::finish(Subgroup& group) {
  group.receive(std::move(transfer_));
  for (std::size_t r = 0; r < received_.size(); ++r) {
    if (!received_[r].defined()) continue;
    const auto rank = static_cast<std::int64_t>(r);
    const SmallSlices small(cut_, rank, dtypes_);
    for (std::size_t i = 0; i < cut_.count(); ++i)
      if (cut_.is_small(i) && cut_.rows(i, rank).count > 0)
        cut_.slice(whole_[i], i, rank).copy_(small.slice(received_[r], i));
  }
  return std::move(whole_);
}

IKEBANA_INLINE std::vector<at::Tensor> UnitGather::to_send(std::int64_t rank, const Tensors& own) {
  const SmallSlices small(cut_, rank, dtypes_);
  sent_bytes_ = small.bytes();
  std::vector<at::Tensor> all;
  if (small.bytes() > 0) all.push_back(at::empty({small.bytes()}, bytes_like(own[0])));
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].numel() == 0) continue;
    if (cut_.is_small(i)) small.slice(all[0], i).copy_(own[i]);
    else all.push_back(elements_in_memory(cut_.in_rows(own[i], i)));
  }
  return all;
}

IKEBANA_INLINE std::vector<at::Tensor> UnitGather::to_receive(std::int64_t rank,
                                                              const Tensors& own) {
  const SmallSlices small(cut_, rank, dtypes_);
  received_bytes_ += small.bytes();
  std::vector<at::Tensor> all;
  if (small.bytes() > 0) all.push_back(at::empty({small.bytes()}, bytes_like(own[0])));
  if (small.bytes() > 0) received_.back() = all[0];
  for (std::size_t i = 0; i < cut_.count(); ++i)
    if (!cut_.is_small(i)) all.push_back(elements_in_memory(cut_.slice(whole_[i], i, rank)));
  return all;
}

IKEBANA_INLINE void UnitGather::copy_own(std::int64_t rank, const Tensors& own) {
  for (std::size_t i = 0; i < own.size(); ++i)
    if (own[i].numel() > 0 && !same_storage(own[i], whole_[i]))
      cut_.slice(whole_[i], i, rank).copy_(own[i]);
}

IKEBANA_INLINE at::TensorOptions UnitGather::bytes_like(const at::Tensor& t) {
  return t.options().dtype(at::kByte).requires_grad(false);
}

}  // namespace ikebana::detail
