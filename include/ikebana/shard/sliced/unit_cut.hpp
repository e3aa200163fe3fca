#pragma once
// Cuts a unit's parameters among ranks, by rows.
#include <ikebana/hooks/arguments.hpp>

namespace ikebana::detail {

/// The cut of each parameter of a unit, by `rows_of_rank`.
class UnitCut {
 public:
  UnitCut(const Tensors& whole, std::int64_t ranks);

  std::size_t count() const { return parameters_.size(); }
  RowRange rows(std::size_t i, std::int64_t rank) const;
  /// Returns true if the slices of this parameter are sent with others in one message, because
  /// copying them costs less than a message.
  bool is_small(std::size_t i) const { return is_small_[i]; }

  std::int64_t slice_bytes(std::size_t i, std::int64_t rank, std::size_t itemsize) const;
  std::vector<std::int64_t> slice_sizes(std::size_t i, std::int64_t rank) const;
  const std::vector<std::int64_t>& strides(std::size_t i) const { return parameters_[i].strides; }

  /// Returns memory for a whole parameter, or for a rank's slice of it, in which rows follow each
  /// other.
  at::Tensor new_whole(std::size_t i, const at::TensorOptions& options) const;
  at::Tensor new_slice(std::size_t i, std::int64_t rank, const at::TensorOptions& options) const;
  /// Returns a rank's rows of the whole parameter, which share its memory.
  at::Tensor slice(const at::Tensor& whole, std::size_t i, std::int64_t rank) const;
  /// Returns `t`, a whole parameter or a slice, in memory in which its rows follow each other: `t`
  /// itself if they do there.
  at::Tensor in_rows(const at::Tensor& t, std::size_t i) const;

 private:
  static constexpr std::int64_t small = 64 << 10;  // bytes

  struct Parameter {
    std::vector<std::int64_t> sizes, strides;
    std::int64_t row;  // elements of one row
  };
  /// Returns the strides of the parameter if its rows follow each other in memory, as in
  /// channels_last, or else the strides of a contiguous tensor.
  static std::vector<std::int64_t> row_strides(const at::Tensor& t);
  std::vector<Parameter> parameters_;
  std::vector<bool> is_small_;
  std::int64_t ranks_;
};

/// Returns the elements of a tensor without gaps, in the order of memory.
at::Tensor elements_in_memory(const at::Tensor& t);

/// The small slices that one rank has of a unit, one after the other in one tensor of bytes.
class SmallSlices {
 public:
  /// `head` is the number of bytes before the first slice.
  SmallSlices(const UnitCut& cut, std::int64_t rank, const DTypes& dtypes, std::int64_t head = 0);
  std::int64_t bytes() const { return bytes_; }
  /// Returns slice i within `memory`.
  at::Tensor slice(const at::Tensor& memory, std::size_t i) const;

 private:
  static std::int64_t padded(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }
  std::int64_t length(std::size_t i) const;

  const UnitCut* cut_;
  std::int64_t rank_;
  const DTypes* dtypes_;
  std::int64_t bytes_;
  std::vector<std::int64_t> begins_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/unit_cut.ipp>
#endif
