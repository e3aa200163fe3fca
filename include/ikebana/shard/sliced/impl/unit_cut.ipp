#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/sliced/unit_cut.hpp>

namespace ikebana::detail {

IKEBANA_INLINE UnitCut::UnitCut(const Tensors& whole, std::int64_t ranks) : ranks_(ranks) {
  for (const at::Tensor& t : whole) {
    const std::int64_t row = t.size(0) == 0 ? 0 : t.numel() / t.size(0);
    parameters_.push_back({t.sizes().vec(), row_strides(t), row});
    is_small_.push_back(slice_bytes(parameters_.size() - 1, 0, t.itemsize()) < small);
  }
}

IKEBANA_INLINE RowRange UnitCut::rows(std::size_t i, std::int64_t rank) const {
  return rows_of_rank(parameters_[i].sizes[0], rank, ranks_);
}

IKEBANA_INLINE std::int64_t UnitCut::slice_bytes(std::size_t i, std::int64_t rank,
                                                 std::size_t itemsize) const {
  return rows(i, rank).count * parameters_[i].row * static_cast<std::int64_t>(itemsize);
}

IKEBANA_INLINE std::vector<std::int64_t> UnitCut::slice_sizes(std::size_t i,
                                                              std::int64_t rank) const {
  auto sizes = parameters_[i].sizes;
  sizes[0] = rows(i, rank).count;
  return sizes;
}

IKEBANA_INLINE at::Tensor UnitCut::new_whole(std::size_t i,
                                             const at::TensorOptions& options) const {
  return at::empty_strided(parameters_[i].sizes, parameters_[i].strides, options);
}

IKEBANA_INLINE at::Tensor UnitCut::new_slice(std::size_t i, std::int64_t rank,
                                             const at::TensorOptions& options) const {
  return at::empty_strided(slice_sizes(i, rank), parameters_[i].strides, options);
}

IKEBANA_INLINE at::Tensor UnitCut::slice(const at::Tensor& whole, std::size_t i,
                                         std::int64_t rank) const {
  const RowRange r = rows(i, rank);
  return whole.narrow(0, r.first, r.count);
}

IKEBANA_INLINE at::Tensor UnitCut::in_rows(const at::Tensor& t, std::size_t i) const {
  if (t.numel() == 0 || t.strides() == at::IntArrayRef(parameters_[i].strides)) return t;
  return at::empty_strided(t.sizes(), parameters_[i].strides, t.options().requires_grad(false))
      .copy_(t);
}

IKEBANA_INLINE std::vector<std::int64_t> UnitCut::row_strides(const at::Tensor& t) {
  const bool in_rows =
      t.is_non_overlapping_and_dense() && t.numel() > 0 && t.stride(0) * t.size(0) == t.numel();
  return in_rows ? t.strides().vec() : at::empty(t.sizes(), at::kMeta).strides().vec();
}

IKEBANA_INLINE at::Tensor elements_in_memory(const at::Tensor& t) {
  return t.numel() == 0 ? t.reshape({0}) : in_memory_order(t);
}

IKEBANA_INLINE SmallSlices::SmallSlices(const UnitCut& cut, std::int64_t rank, const DTypes& dtypes,
                                        std::int64_t head)
    : cut_(&cut), rank_(rank), dtypes_(&dtypes), bytes_(padded(head)) {
  for (std::size_t i = 0; i < cut.count(); ++i) {
    begins_.push_back(bytes_);
    if (cut.is_small(i)) bytes_ += padded(length(i));
  }
}

IKEBANA_INLINE at::Tensor SmallSlices::slice(const at::Tensor& memory, std::size_t i) const {
  return memory.narrow(0, begins_[i], length(i))
      .view((*dtypes_)[i])
      .as_strided(cut_->slice_sizes(i, rank_), cut_->strides(i));
}

IKEBANA_INLINE std::int64_t SmallSlices::length(std::size_t i) const {
  return cut_->slice_bytes(i, rank_, c10::elementSize((*dtypes_)[i]));
}

}  // namespace ikebana::detail
