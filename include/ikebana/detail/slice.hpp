#pragma once
// Which rows of a whole tensor another one is.
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana {

/// Rows `first` to `first + count` of a parameter, in its first dimension.
struct RowRange {
  std::int64_t first = 0, count = 0;
};

/// Which part of its parameter a master weight is, or a tensor of the optimizer's state of what it
/// would be for the whole parameter.
struct Slice {
  std::vector<std::int64_t> sizes;  ///< of the whole
  RowRange rows;                    ///< that it has; a tensor without dimensions has 1
  std::size_t unit = 0;             ///< index of the unit that owns the parameter

  bool is_whole() const { return rows.count == (sizes.empty() ? 1 : sizes[0]); }
};

namespace detail {

/// The slice that a whole parameter is.
inline Slice whole_slice(const at::Tensor& parameter, std::size_t unit) {
  return {parameter.sizes().vec(), {0, parameter.dim() == 0 ? 1 : parameter.size(0)}, unit};
}

}  // namespace detail
}  // namespace ikebana
