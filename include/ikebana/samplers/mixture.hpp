#pragma once
// Defines the sampler that mixes parts of a dataset by weights.
#include <ikebana/data/sampler.hpp>

namespace ikebana {

/// Mixes parts of a dataset, such as the datasets of a ConcatDataset, by weights. In each 65,536
/// positions a part has its share, rounded to whole samples and at least one, at random places. A
/// part that is larger than its share is read once over several epochs, in a
/// random order, before any of its samples comes again; a smaller one is repeated within an epoch.
/// Takes no memory, and about 100 ns per sample.
///
///     ConcatDataset all{web, books};
///     MixtureSampler mixture{{web.size(), books.size()}, {0.9, 0.1}};
///     DataLoader loader{all, {.batch_size = 32, .sampler = mixture}};
class MixtureSampler {
 public:
  /// Takes the number of samples of each part, in the order of the dataset, their weights, and the
  /// samples per epoch; 0: as many as the dataset has. Throws BadValue for numbers that are not
  /// positive, weights that are negative or all 0, or of another count than sizes, and for more
  /// than 65,536 parts.
  MixtureSampler(std::vector<std::int64_t> sizes, std::vector<double> weights,
                 std::int64_t samples_per_epoch = 0);

  /// Returns the number of samples per epoch. Throws BadValue unless the parts have `samples`
  /// samples.
  std::int64_t size(std::int64_t samples) const;
  /// Returns the index of the sample at a position of an epoch.
  std::int64_t index(std::int64_t position, const SampledEpoch& epoch) const;
  /// Returns a hash of the weights, which a loader compares with that of a saved state.
  std::uint64_t hash() const;

 private:
  static constexpr std::int64_t block = 1 << 16;  // positions in which each part has its share

  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> first_{0};         // the first sample of each part, and their number
  std::vector<std::int64_t> block_begins_{0};  // the first place of each part in a block, and 65536
  std::int64_t per_epoch_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/samplers/impl/mixture.ipp>
#endif
