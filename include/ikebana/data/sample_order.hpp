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
    if (batches() == 0)
      throw BadValue("DataLoader: " + std::to_string(samples) + " samples make no batch of " +
                     std::to_string(options.batch_size) +
                     ", and drop_last skips a smaller batch. Choose a smaller batch_size.");
  }

  std::int64_t samples() const { return samples_; }
  /// Batches per epoch.
  std::int64_t batches() const {
    return samples_ / options_.batch_size +
           (!options_.drop_last && samples_ % options_.batch_size != 0 ? 1 : 0);
  }

  /// The indices of one batch's samples: a Long tensor of at most batch_size elements.
  at::Tensor indices(LoaderPosition at) const {
    std::int64_t begin = at.batch * options_.batch_size;
    std::int64_t count = std::min(options_.batch_size, samples_ - begin);
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
  std::int64_t samples_;
  DataLoaderOptions options_;
};

}  // namespace ikebana::detail
