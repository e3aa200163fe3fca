#pragma once
// Which samples are in which batch: a function of (seed, epoch, batch), without state.
#include <algorithm>
#include <ikebana/data/options.hpp>
#include <ikebana/data/permutation.hpp>
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

class SampleOrder {
 public:
  /// Throws BadValue if an epoch has no batch.
  SampleOrder(std::int64_t samples, const DataLoaderOptions& options)
      : samples_(samples), options_(options) {
    if (samples < 1)
      throw BadValue("DataLoader: the dataset has " + std::to_string(samples) +
                     " samples; it must have 1 or more.");
    if (samples < options.num_replicas)
      throw BadValue("DataLoader: " + std::to_string(samples) + " samples are fewer than the " +
                     std::to_string(options.num_replicas) + " ranks, and each needs one.");
    if (batches() == 0)
      throw BadValue("DataLoader: " + std::to_string(samples) + " samples make no batch of " +
                     std::to_string(together()) +
                     ", and drop_last skips a smaller batch. Choose a smaller batch_size.");
  }

  std::int64_t samples() const { return samples_; }
  /// Batches per epoch.
  std::int64_t batches() const {
    const std::int64_t whole = samples_ / together(), rest = samples_ % together();
    const bool is_batch = rest >= options_.num_replicas || whole == 0;
    return whole + (!options_.drop_last && rest != 0 && is_batch ? 1 : 0);
  }

  /// A number of its own for each batch of each rank.
  std::int64_t batch_of_all(LoaderPosition at) const {
    return at.batch * options_.num_replicas + options_.rank;
  }
  /// The indices of one batch's samples, a Long tensor: this rank's part of the samples that all
  /// ranks read together.
  at::Tensor indices(LoaderPosition at) const {
    const bool ends = !options_.drop_last && at.batch + 1 == batches();
    const std::int64_t first = at.batch * together();
    const std::int64_t all = ends ? samples_ - first : together();
    const std::int64_t begin = first + all * options_.rank / options_.num_replicas;
    const std::int64_t count = first + all * (options_.rank + 1) / options_.num_replicas - begin;
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

 private:
  /// Samples of one batch of each rank.
  std::int64_t together() const { return options_.batch_size * options_.num_replicas; }

  std::int64_t samples_;
  DataLoaderOptions options_;
};

}  // namespace ikebana::detail
