#pragma once
#include <ikebana/batch/empty.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void OneZeroRow::operator()(at::Tensor& t, std::int64_t dim) const {
  if (!has_rows(t, dim)) return;
  auto sizes = t.sizes().vec();
  sizes[static_cast<std::size_t>(dim)] = 1;
  t = at::zeros(sizes, t.options()).set_requires_grad(t.requires_grad());
}

IKEBANA_INLINE void OneZeroRow::operator()(Ragged& ragged, std::int64_t) const {
  if (!ragged.defined()) return;
  at::Tensor sample = ragged.values();
  (*this)(sample, 0);
  ragged = Ragged(std::vector<at::Tensor>{std::move(sample)});
}

}  // namespace ikebana::detail
