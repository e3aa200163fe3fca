#pragma once
// Which samples are in which batch: a function of (seed, epoch, batch), without state.
#include <ikebana/data/options.hpp>
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

class SampleOrder {
 public:
  /// Throws BadValue if an epoch has no batch.
  SampleOrder(std::int64_t samples, const DataLoaderOptions& options);

  std::int64_t samples() const { return samples_; }
  /// Batches per epoch, the same on every rank.
  std::int64_t batches() const;

  /// A number of its own for each rank's part of each batch.
  std::int64_t number_of_part(LoaderPosition at) const;
  /// The indices of the samples that this rank reads of a batch, a Long tensor. May be empty.
  at::Tensor indices(LoaderPosition at) const;
  /// The index of a batch's first sample, which some rank reads.
  at::Tensor first_index(LoaderPosition at) const;

 private:
  at::Tensor indices(LoaderPosition at, std::int64_t begin, std::int64_t count) const;

  std::int64_t samples_;
  DataLoaderOptions options_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/data/impl/sample_order.ipp>
#endif
