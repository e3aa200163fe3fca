#pragma once
// How an AnyTrainer is given the batches of a step.
#include <ikebana/checks/loss.hpp>
#include <ikebana/grammar/refuse_batch.hpp>
#include <tuple>
#include <type_traits>

namespace ikebana {

namespace detail {

/// What a microbatch is given as in a vector: a bare tensor as `std::tuple<at::Tensor>`.
template <class Batch>
using given_microbatch = std::conditional_t<std::is_same_v<Batch, at::Tensor>, TensorAlone, Batch>;

template <class Range>
using range_diagnosis_t =
    std::conditional_t<BareTensors<Range>, refuse::OneBatchOrSeveral<Range>, refuse::Nothing>;

/// The batches of any range, bare tensors out of their tuples.
template <class Batch, class Range>
Microbatches<Batch> microbatches(const Range& batches) {
  Microbatches<Batch> all;
  for (const auto& batch : batches) {
    if constexpr (std::is_convertible_v<decltype(batch), const Batch&>) all.push_back(batch);
    else all.push_back(std::get<0>(batch));
  }
  return all;
}

}  // namespace detail

}  // namespace ikebana
