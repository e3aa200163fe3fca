#pragma once
// Defines the sampler that draws samples by weights.
#include <ikebana/data/sampler.hpp>
#include <ikebana/detail/torch.hpp>

namespace ikebana {

/// Draws samples with replacement, each with a probability in proportion to its weight, such as 1 /
/// (number of samples of its class): PyTorch's WeightedRandomSampler. The draw at a position
/// depends on the seed, the epoch and the position alone. Takes 8 bytes per sample and some
/// nanoseconds per draw (Walker's alias method; Vose, "A linear algorithm for generating random
/// numbers with a given distribution", 1991). Throws BadValue for a weight that is negative or not
/// finite, or if all are 0.
class WeightedSampler {
 public:
  /// Takes a weight per sample, of any dtype, and the number of draws per epoch; 0: as many as
  /// there are samples.
  explicit WeightedSampler(const at::Tensor& weights, std::int64_t draws = 0);

  /// Returns the number of draws per epoch. Throws BadValue unless there is a weight per sample.
  std::int64_t size(std::int64_t samples) const;
  /// Returns the index of the sample at a position of an epoch.
  std::int64_t index(std::int64_t position, const SampledEpoch& epoch) const;
  /// Returns a hash of the weights, which a loader compares with that of a saved state.
  std::uint64_t hash() const { return hash_; }

 private:
  struct Cell {
    float keeps;          // the probability of the cell's own sample
    std::uint32_t other;  // the sample that is drawn otherwise
  };
  static std::vector<Cell> alias_table(const std::vector<double>& weights, double sum);

  std::shared_ptr<const std::vector<Cell>> cells_;
  std::int64_t draws_;
  std::uint64_t hash_;
};

/// Returns a weight for each label (Long, one dimension), 1 / (number of samples with that label),
/// by which WeightedSampler draws all classes equally often. Throws BadValue for negative labels.
at::Tensor balanced_weights(const at::Tensor& labels);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/samplers/impl/weighted_sampler.ipp>
#endif
