#pragma once
// A batch is any value that holds tensors: an aggregate, a tuple, a map from names, a vector of
// tensors, a torch::data::Example, a Ragged, a tensor. All its tensors have the same size along the
// batch dimension. Lists of other values with that length are cut like tensors; scalars and
// everything else belong to every microbatch.
#include <ikebana/batch/empty.hpp>
#include <ikebana/batch/input_and_target.hpp>
#include <ikebana/batch/rows.hpp>
#include <ikebana/bridge/copy_stream.hpp>
#include <ikebana/grammar/refuse_batch.hpp>

namespace ikebana {

/// Returns the number of rows of a batch: the common size of its tensors, and of its Raggeds in
/// samples; for a batch without either, the length of its lists. Throws BadBatch if it has no rows,
/// or if two sizes differ.
template <class Batch>
std::int64_t rows(const Batch& batch) {
  detail::CountRows count;
  detail::for_each_field<batch_dim<Batch>>(batch, count);
  if (count.rows() > 0) return count.rows();
  detail::throw_bad_rows<Batch>(count, detail::tensors_text(batch));
}

/// Returns rows [begin, begin + length) of a batch: views of its tensors, and copies of that part
/// of its lists. A negative `begin` counts from the end. Throws BadBatch for rows that do not
/// exist.
template <class Batch>
Batch narrow(const Batch& batch, std::int64_t begin, std::int64_t length) {
  if constexpr (detail::refers_to_tensors<Batch>) (void)sizeof(refuse::TensorsOfOthers<Batch>);
  const std::int64_t all = rows(batch);
  if (begin < 0) begin += all;
  if (begin < 0 || length < 0 || begin > all - length)
    throw BadBatch("narrow: there are no rows " + std::to_string(begin) + " to " +
                   std::to_string(begin + length) + " in a batch of " + std::to_string(all) +
                   ". Give it a range within the batch.");
  return detail::narrowed(batch, all, begin, length);
}

/// Returns copies of the rows of a batch that `index` (a vector of integers) names, in its order.
/// Use it for minibatches of a rollout or a replay buffer: `index_select(rollout,
/// at::randperm(n).narrow(...))`. Throws BadBatch for another index, such as a mask.
template <class Batch>
Batch index_select(const Batch& batch, const at::Tensor& index) {
  if constexpr (detail::refers_to_tensors<Batch>) (void)sizeof(refuse::TensorsOfOthers<Batch>);
  detail::check_index(index);
  detail::SelectRows select{rows(batch), index};
  Batch part = batch;
  detail::for_each_field<batch_dim<Batch>>(part, select);
  return part;
}

/// Cuts a batch into `n` microbatches whose sizes differ by one row at most; fewer if it has fewer
/// rows. Order is kept. Specialise it for a batch that is cut otherwise.
template <class Batch>
std::vector<Batch> split(const Batch& batch, std::int64_t n) {
  if constexpr (detail::refers_to_tensors<Batch>) (void)sizeof(refuse::TensorsOfOthers<Batch>);
  const std::int64_t all = rows(batch), parts = std::min(n, all);
  std::vector<Batch> microbatches;
  microbatches.reserve(static_cast<std::size_t>(parts));
  for (std::int64_t i = 0, begin = 0; i < parts; ++i) {
    const std::int64_t length = all / parts + (i < all % parts ? 1 : 0);
    microbatches.push_back(detail::narrowed(batch, all, begin, length));
    begin += length;
  }
  return microbatches;
}

namespace detail {

/// Returns the batch with its tensors on `device`. Tensors that are there already are not copied.
template <class Batch>
Batch moved(const Batch& batch, c10::Device device) {
  Batch there = batch;
  auto move = [&](auto&& copy) {
    for_each_tensor(there, [&](at::Tensor& t) {
      if (t.defined() && t.device() != device) t = copy(t);
    });
  };
  // A copy to the host must wait, because it could be read before it is complete.
  if (!bridge::has_copy_streams(device))
    return move([&](const at::Tensor& t) { return t.to(device); }), there;
  bridge::CopyToDevice copies(device);
  move(copies);
  copies.finish();
  return there;
}

}  // namespace detail
}  // namespace ikebana
