#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/without_values.hpp>
#include <ikebana/shard/sliced/unit_reduction.hpp>

namespace ikebana::detail {

IKEBANA_INLINE SliceMessage::SliceMessage(const UnitCut& cut, std::int64_t rank,
                                          const DTypes& dtypes, c10::Device device)
    : SliceMessage(cut, rank, dtypes, at::TensorOptions(device)) {
  for (std::size_t i = 0; i < cut.count(); ++i)
    if (!cut.is_small(i)) large_[i] = cut.new_slice(i, rank, options_.dtype(dtypes[i]));
}

IKEBANA_INLINE SliceMessage::SliceMessage(const UnitCut& cut, std::int64_t rank,
                                          const DTypes& dtypes, c10::Device device,
                                          const Tensors& slices)
    : SliceMessage(cut, rank, dtypes, at::TensorOptions(device)) {
  auto* flags = static_cast<std::uint8_t*>(flags_.mutable_data_ptr());
  for (std::size_t i = 0; i < cut.count(); ++i) {
    flags[i] = slices[i].defined();
    if (cut.is_small(i)) {
      if (slices[i].defined()) small_layout_.slice(small_, i).copy_(slices[i]);
    } else if (slices[i].defined()) {
      large_[i] = slices[i];
    } else {  // the other rank waits for it
      large_[i] = cut.new_slice(i, rank, options_.dtype(dtypes[i])).zero_();
    }
  }
}

IKEBANA_INLINE bool SliceMessage::has(std::size_t i) const {
  if (without_values()) return true;
  return static_cast<const std::uint8_t*>(flags_.const_data_ptr())[i] != 0;
}

IKEBANA_INLINE at::Tensor SliceMessage::slice(std::size_t i) const {
  return large_[i].defined() ? large_[i] : small_layout_.slice(small_, i);
}

IKEBANA_INLINE void SliceMessage::add_to(std::vector<at::Tensor>& tensors,
                                         std::vector<at::Tensor>& flags) const {
  if (small_.defined()) tensors.push_back(small_);
  for (const at::Tensor& t : large_)
    if (t.defined()) tensors.push_back(elements_in_memory(t));
  if (!options_.device().is_cpu()) flags.push_back(flags_);
}

IKEBANA_INLINE SliceMessage::SliceMessage(const UnitCut& cut, std::int64_t rank,
                                          const DTypes& dtypes, const at::TensorOptions& options)
    : options_(options), small_layout_(cut, rank, dtypes, head(cut)), large_(cut.count()) {
  if (const auto bytes = small_layout_.bytes(); bytes > 0)
    small_ = at::zeros({bytes}, options_.dtype(at::kByte));
  const auto count = static_cast<std::int64_t>(cut.count());
  const bool apart = head(cut) == 0 || without_values();
  flags_ = apart ? at::zeros({count}, at::kByte) : small_.narrow(0, 0, count);
}

IKEBANA_INLINE std::int64_t SliceMessage::head(const UnitCut& cut) const {
  return options_.device().is_cpu() ? static_cast<std::int64_t>(cut.count()) : 0;
}

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
