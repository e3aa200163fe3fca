#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/data/permutation.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/error.hpp>
#include <ikebana/samplers/mixture.hpp>
#include <numeric>
#include <string>

namespace ikebana {

IKEBANA_INLINE MixtureSampler::MixtureSampler(std::vector<std::int64_t> sizes,
                                              std::vector<double> weights,
                                              std::int64_t samples_per_epoch)
    : sizes_(std::move(sizes)), per_epoch_(samples_per_epoch) {
  double sum = 0;
  bool fits = !sizes_.empty() && sizes_.size() == weights.size() && per_epoch_ >= 0 &&
              std::ssize(sizes_) <= block;
  for (const std::int64_t size : sizes_) fits = fits && size > 0;
  for (const double weight : weights) fits = fits && weight >= 0, sum += weight;
  if (!fits || !(sum > 0 && std::isfinite(sum)))
    throw BadValue("MixtureSampler: " + std::to_string(sizes_.size()) + " sizes and " +
                   std::to_string(weights.size()) +
                   " weights. Give each part a size above 0 and a weight that is finite and not "
                   "negative, not all of them 0, and samples_per_epoch of 0 or more.");
  std::vector<std::int64_t> counts;
  for (const double weight : weights)
    counts.push_back(weight > 0 ? std::max<std::int64_t>(1, std::llround(weight / sum * block))
                                : 0);
  // The largest part takes what rounding left or took.
  *std::max_element(counts.begin(), counts.end()) +=
      block - std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  for (std::size_t part = 0; part < sizes_.size(); ++part) {
    first_.push_back(first_.back() + sizes_[part]);
    block_begins_.push_back(block_begins_.back() + counts[part]);
  }
}

IKEBANA_INLINE std::int64_t MixtureSampler::size(std::int64_t samples) const {
  if (samples != first_.back())
    throw BadValue("MixtureSampler: its parts have " + std::to_string(first_.back()) +
                   " samples, and the dataset " + std::to_string(samples) +
                   ". Give the sizes of all parts of this dataset.");
  return per_epoch_ == 0 ? samples : per_epoch_;
}

IKEBANA_INLINE std::int64_t MixtureSampler::index(std::int64_t position,
                                                  const SampledEpoch& epoch) const {
  // All epochs are one sequence of blocks, in which the parts go on.
  const std::int64_t per_epoch = per_epoch_ == 0 ? epoch.samples : per_epoch_;
  const std::int64_t at = epoch.epoch * per_epoch + position, number = at / block;
  const Permutation places(block, detail::key(epoch.seed, number, std::uint64_t{0x5e}));
  const std::int64_t place = places[at % block];
  const auto after = std::upper_bound(block_begins_.begin(), block_begins_.end(), place);
  const auto part = static_cast<std::size_t>(after - block_begins_.begin()) - 1;
  const std::int64_t begin = block_begins_[part], count = block_begins_[part + 1] - begin;
  const std::int64_t ordinal = number * count + place - begin, n = sizes_[part];
  const Permutation order(n, detail::key(epoch.seed, part, ordinal / n, std::uint64_t{0x5f}));
  return first_[part] + order[ordinal % n];
}

IKEBANA_INLINE std::uint64_t MixtureSampler::hash() const {
  std::uint64_t hash = detail::key(per_epoch_);
  for (std::size_t i = 0; i < sizes_.size(); ++i)
    hash = detail::key(hash, sizes_[i], block_begins_[i + 1]);
  return hash;
}

}  // namespace ikebana
