#pragma once
// Makes batches without rows, and batches of one row of zeros, with the shapes and dtypes of
// another batch.
#include <ikebana/batch/rows.hpp>
#include <ikebana/error.hpp>

namespace ikebana {

namespace detail {

/// Returns whether a batch has fields with rows, and no row in them.
template <class Batch>
bool has_no_rows(const Batch& batch) {
  CountRows count;
  for_each_field<batch_dim<Batch>>(batch, count);
  return count.rows() == 0;
}

/// Removes all rows from a batch; its fields keep their dtypes and their other sizes. Throws
/// BadBatch, whose text begins with `why`, for a batch in which rows cannot be told from other
/// data.
template <class Batch>
void remove_rows(Batch& batch, const std::string& why) {
  if constexpr (refers_to_tensors<Batch>) {
    throw BadBatch(why + "it refers to tensors of others. Let it hold its tensors.");
  } else {
    CountRows count;
    for_each_field<batch_dim<Batch>>(batch, count);
    if (count.rows() < 0)
      throw BadBatch(
          why +
          (count.found() ? "its fields differ in their rows (" : "it shows no field with rows (") +
          tensors_text(batch) + "). Give every field a row for each sample.");
    const CutRows cut{count.rows(), 0, 0};
    for_each_field<batch_dim<Batch>>(batch, cut);
  }
}
/// Returns a batch without rows that shares no memory with `batch`.
template <class Batch>
Batch without_rows(const Batch& batch) {
  Batch none = batch;
  remove_rows(none, "batch: a batch without rows cannot be made of this one, since ");
  for_each_tensor(none, [](at::Tensor& t) {
    if (t.defined() && t.numel() == 0) t = at::empty_like(t).set_requires_grad(t.requires_grad());
  });
  return none;
}

/// Leaves one row in each field of a batch of `rows`: zeros in tensors, and in lists the first
/// element, or a new one if the list is empty. Tensors and lists that do not have a row for each
/// sample stay.
struct OneZeroRow {
  std::int64_t rows;

  void operator()(at::Tensor& t, std::int64_t dim) const;
  void operator()(Ragged& ragged, std::int64_t) const;
  template <HostList List>
  void operator()(List& list, std::int64_t) const {
    if (length_of(list) != rows) return for_each_inner_list(list, *this);
    using Element = std::ranges::range_value_t<List>;
    if constexpr (std::is_default_constructible_v<Element> && requires { list.resize(1); })
      list.resize(1);
    else if (rows > 1) CutRows{rows, 0, 1}(list, 0);
  }
};

}  // namespace detail

/// Makes one row of zeros with the shapes and dtypes of `batch`, which may have no rows itself. A
/// rank computes with it if it has no batch and others have one. Specialise it for a type of which
/// this is not a valid batch, such as a graph.
template <class Batch>
Batch zero_row(const Batch& batch) {
  detail::CountRows count;
  detail::for_each_field<batch_dim<Batch>>(batch, count);
  const detail::OneZeroRow one{count.rows()};
  Batch row = batch;
  detail::for_each_field<batch_dim<Batch>>(row, one);
  return row;
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/batch/impl/empty.ipp>
#endif
