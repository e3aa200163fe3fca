#pragma once
#include <algorithm>
#include <ikebana/data/permutation.hpp>
#include <ikebana/data/sample_order.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE SampleOrder::SampleOrder(std::int64_t samples, const DataLoaderOptions& options)
    : samples_(samples), options_(options) {
  if (samples < 1)
    throw BadValue("DataLoader: the dataset has " + std::to_string(samples) +
                   " samples; it must have 1 or more.");
  if (batches() == 0)
    throw BadValue("DataLoader: " + std::to_string(samples) + " samples make no batch of " +
                   std::to_string(options.batch_size) +
                   ", and drop_last skips a smaller batch. Choose a smaller batch_size.");
}

IKEBANA_INLINE std::int64_t SampleOrder::batches() const {
  const bool has_rest = !options_.drop_last && samples_ % options_.batch_size != 0;
  return samples_ / options_.batch_size + (has_rest ? 1 : 0);
}

IKEBANA_INLINE std::int64_t SampleOrder::number_of_part(BatchPosition at) const {
  return at.batch * options_.num_replicas + options_.rank;
}

IKEBANA_INLINE at::Tensor SampleOrder::indices(BatchPosition at) const {
  const std::int64_t first = at.batch * options_.batch_size;
  const std::int64_t all = std::min(options_.batch_size, samples_ - first);
  const std::int64_t begin = all * options_.rank / options_.num_replicas;
  const std::int64_t end = all * (options_.rank + 1) / options_.num_replicas;
  return indices(at, first + begin, end - begin);
}

IKEBANA_INLINE at::Tensor SampleOrder::first_index(BatchPosition at) const {
  return indices(at, at.batch * options_.batch_size, 1);
}

IKEBANA_INLINE at::Tensor SampleOrder::indices(BatchPosition at, std::int64_t begin,
                                               std::int64_t count) const {
  at::Tensor indices = at::empty({count}, at::kLong);
  auto* index = indices.mutable_data_ptr<std::int64_t>();
  if (options_.shuffle) {
    Permutation order(samples_, key(options_.seed, at.epoch, RngStream::Order));
    for (std::int64_t i = 0; i < count; ++i) index[i] = order[begin + i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) index[i] = begin + i;
  }
  return indices;
}

}  // namespace ikebana::detail
