#pragma once
#include <algorithm>
#include <ikebana/data/permutation.hpp>
#include <ikebana/data/sample_order.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE RowRange rows_read_by(std::int64_t rank, std::int64_t ranks, std::int64_t all) {
  const std::int64_t first = all * rank / ranks;
  return {first, all * (rank + 1) / ranks - first};
}

IKEBANA_INLINE SampleOrder::SampleOrder(std::int64_t samples, const DataLoaderOptions& options)
    : samples_(samples), positions_(samples), options_(options) {
  if (samples < 1)
    throw BadValue("DataLoader: the dataset has " + std::to_string(samples) +
                   " samples; it must have 1 or more.");
  if (options.sampler) positions_ = options.sampler.size(samples);
  if (positions_ < 1)
    throw BadValue("DataLoader: size(" + std::to_string(samples) + ") of the sampler is " +
                   std::to_string(positions_) + "; it must be 1 or more.");
  if (batches() == 0)
    throw BadValue("DataLoader: " + std::to_string(positions_) + " samples make no batch of " +
                   std::to_string(options.batch_size) +
                   ", and drop_last skips a smaller batch. Choose a smaller batch_size.");
}

IKEBANA_INLINE std::int64_t SampleOrder::batches() const {
  if (by_batches()) return positions_;
  const bool has_rest = !options_.drop_last && positions_ % options_.batch_size != 0;
  return positions_ / options_.batch_size + (has_rest ? 1 : 0);
}

IKEBANA_INLINE std::int64_t SampleOrder::number_of_part(BatchPosition at) const {
  return at.batch * options_.num_replicas + options_.rank;
}

IKEBANA_INLINE at::Tensor SampleOrder::indices(BatchPosition at) const {
  if (by_batches()) return part_of_sampled(at);
  const std::int64_t first = at.batch * options_.batch_size;
  const std::int64_t all = std::min(options_.batch_size, positions_ - first);
  const RowRange mine = rows_read_by(options_.rank, options_.num_replicas, all);
  return indices(at, first + mine.first, mine.count);
}

IKEBANA_INLINE at::Tensor SampleOrder::part_of_sampled(BatchPosition at) const {
  const std::vector<std::int64_t> batch = sampled_batch(at);
  const RowRange mine = rows_read_by(options_.rank, options_.num_replicas, std::ssize(batch));
  return at::tensor(at::IntArrayRef(batch).slice(static_cast<std::size_t>(mine.first),
                                                 static_cast<std::size_t>(mine.count)),
                    at::kLong);
}

IKEBANA_INLINE std::vector<std::int64_t> SampleOrder::sampled_batch(BatchPosition at) const {
  std::vector<std::int64_t> batch = options_.sampler.batch(at.batch, sampled(at));
  if (batch.empty())
    throw BadValue("DataLoader: the sampler's batch " + std::to_string(at.batch) + " of epoch " +
                   std::to_string(at.epoch) + " has no samples; it must have 1 or more.");
  for (const std::int64_t index : batch) check_index(index);
  return batch;
}

IKEBANA_INLINE at::Tensor SampleOrder::first_index(BatchPosition at) const {
  if (by_batches()) return at::tensor({sampled_batch(at)[0]}, at::kLong);
  return indices(at, at.batch * options_.batch_size, 1);
}

IKEBANA_INLINE at::Tensor SampleOrder::indices(BatchPosition at, std::int64_t begin,
                                               std::int64_t count) const {
  at::Tensor indices = at::empty({count}, at::kLong);
  auto* index = indices.mutable_data_ptr<std::int64_t>();
  if (options_.sampler) {
    for (std::int64_t i = 0; i < count; ++i)
      check_index(index[i] = options_.sampler.index(begin + i, sampled(at)));
  } else if (options_.shuffle) {
    Permutation order(samples_, key(options_.seed, at.epoch, RngStream::Order));
    for (std::int64_t i = 0; i < count; ++i) index[i] = order[begin + i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) index[i] = begin + i;
  }
  return indices;
}

IKEBANA_INLINE void SampleOrder::check_index(std::int64_t index) const {
  if (index < 0 || index >= samples_)
    throw BadValue("DataLoader: the sampler chose sample " + std::to_string(index) +
                   "; the dataset has " + std::to_string(samples_) +
                   ", which count from 0. Make the sampler for this dataset.");
}

}  // namespace ikebana::detail
