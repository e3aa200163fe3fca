#pragma once
// Which rows of a whole tensor another one is.
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana {

/// Rows `first` to `first + count` of a parameter, in its first dimension.
struct RowRange {
  std::int64_t first = 0;  ///< index of the first of them
  std::int64_t count = 0;  ///< how many
};

/// The rows that a rank has of a parameter with `all` rows: every rank has as many as the others,
/// but for the last ones, which may have fewer, or none. As of PyTorch's DTensor.
RowRange rows_of_rank(std::int64_t all, std::int64_t rank, std::int64_t ranks);

/// Which part of a whole tensor a rank's tensor is: of its parameter, or of a tensor of its state.
struct Slice {
  std::vector<std::int64_t> sizes;  ///< of the whole tensor
  RowRange rows;                    ///< that the rank has; a tensor without dimensions has 1
  std::size_t unit = 0;             ///< index of the unit that owns the parameter

  /// Whether the rank has all rows.
  bool is_whole() const { return rows.count == all_rows(); }
  /// The rows of the whole tensor.
  std::int64_t all_rows() const { return sizes.empty() ? 1 : sizes[0]; }
  /// Of the whole tensor.
  std::int64_t numel() const { return c10::multiply_integers(sizes); }
  /// The place of the slice's first element among those of the whole tensor, row by row.
  std::int64_t first_element() const;
};

namespace detail {

/// The slice that a whole parameter is.
Slice whole_slice(const at::Tensor& parameter, std::size_t unit);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/slice.ipp>
#endif
