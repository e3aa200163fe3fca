#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/slice.hpp>

namespace ikebana {

IKEBANA_INLINE RowRange rows_of_rank(std::int64_t all, std::int64_t rank, std::int64_t ranks) {
  const std::int64_t each = (all + ranks - 1) / ranks, first = std::min(rank * each, all);
  return {first, std::min(each, all - first)};
}

IKEBANA_INLINE std::int64_t Slice::first_element() const {
  return all_rows() == 0 ? 0 : rows.first * (numel() / all_rows());
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE Slice whole_slice(const at::Tensor& parameter, std::size_t unit) {
  return {parameter.sizes().vec(), {0, parameter.dim() == 0 ? 1 : parameter.size(0)}, unit};
}

}  // namespace ikebana::detail
