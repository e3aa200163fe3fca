#pragma once
// Slices: the rows of a whole tensor that a rank's tensor has.
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana {

/// Rows `first` to `first + count` of a parameter, in its first dimension.
struct RowRange {
  std::int64_t first = 0;  ///< index of the first row
  std::int64_t count = 0;  ///< number of rows
};

/// Returns the rows that a rank has of a parameter with `all` rows. Every rank has the same number
/// of rows, except the last ones, which may have fewer or no rows, as in PyTorch's DTensor.
RowRange rows_of_rank(std::int64_t all, std::int64_t rank, std::int64_t ranks);

/// The part of a whole tensor that a rank has: of a parameter, or of a tensor of its state.
struct Slice {
  std::vector<std::int64_t> sizes;  ///< the sizes of the whole tensor
  RowRange rows;                    ///< the rank's rows; a tensor without dimensions has 1 row
  std::size_t unit = 0;             ///< index of the unit that owns the parameter

  /// Returns whether the rank has all rows.
  bool is_whole() const { return rows.count == all_rows(); }
  /// Returns the number of rows of the whole tensor.
  std::int64_t all_rows() const { return sizes.empty() ? 1 : sizes[0]; }
  /// Returns the number of elements of the whole tensor.
  std::int64_t numel() const { return c10::multiply_integers(sizes); }
  /// Returns the index of the slice's first element among the elements of the whole tensor, row by
  /// row.
  std::int64_t first_element() const;
};

namespace detail {

/// Makes the slice that contains a whole parameter.
Slice whole_slice(const at::Tensor& parameter, std::size_t unit);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/slice.ipp>
#endif
