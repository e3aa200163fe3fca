#pragma once
// How a unit's parameters are cut among ranks: each by rows.
#include <algorithm>
#include <ikebana/hooks/arguments.hpp>

namespace ikebana::detail {

/// The cut of each parameter of a unit, by `rows_of_rank`.
class UnitCut {
 public:
  UnitCut(const Tensors& whole, std::int64_t ranks) : ranks_(ranks) {
    for (const at::Tensor& t : whole) {
      const std::int64_t row = t.size(0) == 0 ? 0 : t.numel() / t.size(0);
      parameters_.push_back({t.sizes().vec(), row_strides(t), row});
      is_small_.push_back(slice_bytes(parameters_.size() - 1, 0, t.itemsize()) < small);
    }
  }

  std::size_t count() const { return parameters_.size(); }
  RowRange rows(std::size_t i, std::int64_t rank) const {
    return rows_of_rank(parameters_[i].sizes[0], rank, ranks_);
  }
  /// True of a parameter whose slices travel with others in one message: copying them costs less
  /// than a message does.
  bool is_small(std::size_t i) const { return is_small_[i]; }

  std::int64_t slice_bytes(std::size_t i, std::int64_t rank, std::size_t itemsize) const {
    return rows(i, rank).count * parameters_[i].row * static_cast<std::int64_t>(itemsize);
  }
  std::vector<std::int64_t> slice_sizes(std::size_t i, std::int64_t rank) const {
    auto sizes = parameters_[i].sizes;
    sizes[0] = rows(i, rank).count;
    return sizes;
  }
  const std::vector<std::int64_t>& strides(std::size_t i) const { return parameters_[i].strides; }

  /// Memory for a whole parameter, or for a rank's slice of it, in which rows follow each other.
  at::Tensor new_whole(std::size_t i, const at::TensorOptions& options) const {
    return at::empty_strided(parameters_[i].sizes, parameters_[i].strides, options);
  }
  at::Tensor new_slice(std::size_t i, std::int64_t rank, const at::TensorOptions& options) const {
    return at::empty_strided(slice_sizes(i, rank), parameters_[i].strides, options);
  }
  /// A rank's rows of the whole parameter: shares its memory.
  at::Tensor slice(const at::Tensor& whole, std::size_t i, std::int64_t rank) const {
    const RowRange r = rows(i, rank);
    return whole.narrow(0, r.first, r.count);
  }
  /// `t`, a whole parameter or a slice, in memory in which its rows follow each other: `t` itself
  /// where it is.
  at::Tensor in_rows(const at::Tensor& t, std::size_t i) const {
    if (t.numel() == 0 || t.strides() == at::IntArrayRef(parameters_[i].strides)) return t;
    return at::empty_strided(t.sizes(), parameters_[i].strides, t.options().requires_grad(false))
        .copy_(t);
  }

 private:
  static constexpr std::int64_t small = 64 << 10;  // bytes

  struct Parameter {
    std::vector<std::int64_t> sizes, strides;
    std::int64_t row;  // elements of one
  };
  /// Those of the parameter where its rows follow each other in memory, as in channels_last; else
  /// those of a contiguous tensor.
  static std::vector<std::int64_t> row_strides(const at::Tensor& t) {
    const bool in_rows =
        t.is_non_overlapping_and_dense() && t.numel() > 0 && t.stride(0) * t.size(0) == t.numel();
    return in_rows ? t.strides().vec() : at::empty(t.sizes(), at::kMeta).strides().vec();
  }
  std::vector<Parameter> parameters_;
  std::vector<bool> is_small_;
  std::int64_t ranks_;
};

/// The elements of a tensor without gaps, in the order of memory.
inline at::Tensor elements_in_memory(const at::Tensor& t) {
  return t.numel() == 0 ? t.reshape({0}) : in_memory_order(t);
}

/// The small slices that one rank has of a unit, one after the other in one tensor of bytes.
class SmallSlices {
 public:
  /// `head`: bytes before the first.
  SmallSlices(const UnitCut& cut, std::int64_t rank, const DTypes& dtypes, std::int64_t head = 0)
      : cut_(&cut), rank_(rank), dtypes_(&dtypes), bytes_(padded(head)) {
    for (std::size_t i = 0; i < cut.count(); ++i) {
      begins_.push_back(bytes_);
      if (cut.is_small(i)) bytes_ += padded(length(i));
    }
  }
  std::int64_t bytes() const { return bytes_; }
  /// Slice i within `memory`.
  at::Tensor slice(const at::Tensor& memory, std::size_t i) const {
    return memory.narrow(0, begins_[i], length(i))
        .view((*dtypes_)[i])
        .as_strided(cut_->slice_sizes(i, rank_), cut_->strides(i));
  }

 private:
  static std::int64_t padded(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }
  std::int64_t length(std::size_t i) const {
    return cut_->slice_bytes(i, rank_, c10::elementSize((*dtypes_)[i]));
  }

  const UnitCut* cut_;
  std::int64_t rank_;
  const DTypes* dtypes_;
  std::int64_t bytes_;
  std::vector<std::int64_t> begins_;
};

}  // namespace ikebana::detail
