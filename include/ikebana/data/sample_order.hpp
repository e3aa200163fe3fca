#pragma once
// Computes which samples are in a batch, as a function of (seed, epoch, batch), without state.
#include <ikebana/data/options.hpp>
#include <ikebana/detail/slice.hpp>
#include <ikebana/detail/torch.hpp>
#include <vector>

namespace ikebana::detail {

/// Returns the rows that a rank reads of a batch of `all` rows. Each row is read by one rank, and
/// the ranks' numbers of rows differ by at most one.
RowRange rows_read_by(std::int64_t rank, std::int64_t ranks, std::int64_t all);

class SampleOrder {
 public:
  /// Throws BadValue if an epoch has no batch.
  SampleOrder(std::int64_t samples, const DataLoaderOptions& options);

  std::int64_t samples() const { return samples_; }
  /// Returns the number of batches per epoch, which is the same on every rank.
  std::int64_t batches() const;

  /// Returns a number that identifies this rank's part of a batch within an epoch.
  std::int64_t number_of_part(BatchPosition at) const;
  /// Returns the indices of the samples that this rank reads of a batch, as a Long tensor. May be
  /// empty.
  at::Tensor indices(BatchPosition at) const;
  /// Returns the index of a batch's first sample, which some rank reads.
  at::Tensor first_index(BatchPosition at) const;

 private:
  at::Tensor indices(BatchPosition at, std::int64_t begin, std::int64_t count) const;
  /// Returns the indices of a batch that a batch sampler makes, of all ranks.
  std::vector<std::int64_t> sampled_batch(BatchPosition at) const;
  at::Tensor part_of_sampled(BatchPosition at) const;
  SampledEpoch sampled(BatchPosition at) const { return {samples_, at.epoch, options_.seed}; }
  void check_index(std::int64_t index) const;
  /// Returns whether whole batches are chosen.
  bool by_batches() const { return options_.sampler && options_.sampler.makes_batches(); }

  std::int64_t samples_, positions_;  // positions_: of an epoch, or batches of a batch sampler
  DataLoaderOptions options_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/data/impl/sample_order.ipp>
#endif
