#pragma once
#include <ikebana/batch/rows.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/grammar/refuse_batch.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void CountRows::operator()(const at::Tensor& t, std::int64_t dim) {
  if (has_rows(t, dim)) tensors_.add(t.size(dim));
}

IKEBANA_INLINE void CountRows::operator()(const Ragged& ragged, std::int64_t) {
  if (ragged.defined()) tensors_.add(ragged.size());
}

IKEBANA_INLINE void CountRows::Size::add(std::int64_t n) {
  agree = agree && (rows < 0 || rows == n);
  if (rows < 0) rows = n;
}

IKEBANA_INLINE void throw_cannot_cut(std::int64_t rows) {
  throw BadBatch(
      "batch: it holds a list of " + std::to_string(rows) +
      " values, as many as it has rows, whose type cannot be cut. Make it a std::vector if each "
      "row has one of them; a struct, a tuple or a std::shared_ptr if all belong to every row.");
}

IKEBANA_INLINE void CutRows::operator()(at::Tensor& t, std::int64_t dim) const {
  if (has_rows(t, dim)) t = t.narrow(dim, begin, length);
}

IKEBANA_INLINE void CutRows::operator()(Ragged& ragged, std::int64_t) const {
  if (ragged.defined()) ragged = ragged.narrow(begin, length);
}

IKEBANA_INLINE void SelectRows::operator()(at::Tensor& t, std::int64_t dim) const {
  if (has_rows(t, dim)) t = t.index_select(dim, index_.to(t.device()));
}

IKEBANA_INLINE void SelectRows::operator()(Ragged& ragged, std::int64_t) const {
  if (ragged.defined()) ragged = ragged.index_select(index_);
}

}  // namespace ikebana::detail
