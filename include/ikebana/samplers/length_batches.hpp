#pragma once
// Defines batch samplers for samples of different lengths.
#include <ikebana/data/sampler.hpp>
#include <ikebana/detail/torch.hpp>

namespace ikebana {

namespace detail {

/// Batches that are made once, by the samples' lengths. In each epoch they come in a new order, and
/// samples of the same length change places, so that the lengths of batches stay.
class LengthBatches {
 public:
  /// Sorts the samples by length; `add_batch` then makes the batches.
  LengthBatches(const char* who, const at::Tensor& lengths);

  std::int64_t samples() const { return static_cast<std::int64_t>(by_length_.size()); }
  std::int64_t batches() const { return static_cast<std::int64_t>(begins_.size()) - 1; }
  std::int64_t length(std::int64_t place) const {
    return lengths_[static_cast<std::size_t>(by_length_[static_cast<std::size_t>(place)])];
  }
  void add_batch(const std::vector<std::int64_t>& places);
  std::vector<std::int64_t> batch(std::int64_t number, const SampledEpoch& epoch) const;
  std::uint64_t hash() const { return hash_; }
  void check(std::int64_t samples) const;

 private:
  /// Returns the sample at a place in this epoch.
  std::int64_t sample_at(std::int64_t place, const SampledEpoch& epoch) const;

  const char* who_;
  std::vector<std::int64_t> lengths_;    // by sample
  std::vector<std::int64_t> by_length_;  // samples, the shortest first: a place is a position here
  std::vector<std::int64_t> group_begins_;  // places at which the length changes, and the end
  std::vector<std::int64_t> places_;        // the places of all batches, one after the other
  std::vector<std::int64_t> begins_{0};     // where each batch begins in `places_`, and the end
  std::uint64_t hash_;
};

}  // namespace detail

/// Options of BucketSampler. One of the two is set.
struct BucketOptions {
  std::int64_t batch_size = 0;  ///< samples per batch
  std::int64_t max_tokens = 0;  ///< the most that a padded batch has: samples times the longest
};

/// Makes batches of samples of about the same length, so that little is padded: Hugging Face's
/// `group_by_length`, fairseq's `max_tokens`. Each sample is in one batch per epoch. The batches
/// are made of the samples sorted by length; they come in a new order in each epoch, and samples
/// of the same length change places. Takes 40 bytes per sample. Throws BadValue for a sample longer
/// than `max_tokens`, and for lengths below 0.
///
///     DataLoader loader{sentences, {.sampler = BucketSampler{lengths, {.max_tokens = 4096}}},
///     pads};
class BucketSampler {
 public:
  /// Takes the length of each sample (integers, one dimension).
  BucketSampler(const at::Tensor& lengths, const BucketOptions& options);
  BucketSampler(const std::vector<std::int64_t>& lengths, const BucketOptions& options);

  /// Returns the number of batches per epoch. Throws BadValue unless there is a length per sample.
  std::int64_t size(std::int64_t samples) const { return made_->check(samples), made_->batches(); }
  /// Returns the indices of the samples of a batch.
  std::vector<std::int64_t> batch(std::int64_t number, const SampledEpoch& epoch) const {
    return made_->batch(number, epoch);
  }
  /// Returns a hash of the batches, which a loader compares with that of a saved state.
  std::uint64_t hash() const { return made_->hash(); }

 private:
  std::shared_ptr<const detail::LengthBatches> made_;
};

/// Makes batches whose samples have at most `max_tokens` together, as full as possible, for packed
/// sequences (samples with a Ragged). Each sample is in one batch per epoch: the longest that still
/// fits goes where least is left over (best fit, decreasing). The lengths of a batch stay; batches
/// come in a new order in each epoch, and samples of the same length change places. Takes 40 bytes
/// per sample. Throws BadValue as BucketSampler.
///
///     DataLoader loader{documents, {.sampler = PackedSampler{lengths, 8192}}};
class PackedSampler {
 public:
  /// Takes the length of each sample (integers, one dimension).
  PackedSampler(const at::Tensor& lengths, std::int64_t max_tokens);
  PackedSampler(const std::vector<std::int64_t>& lengths, std::int64_t max_tokens);

  /// Returns the number of batches per epoch. Throws BadValue unless there is a length per sample.
  std::int64_t size(std::int64_t samples) const { return made_->check(samples), made_->batches(); }
  /// Returns the indices of the samples of a batch.
  std::vector<std::int64_t> batch(std::int64_t number, const SampledEpoch& epoch) const {
    return made_->batch(number, epoch);
  }
  /// Returns a hash of the batches, which a loader compares with that of a saved state.
  std::uint64_t hash() const { return made_->hash(); }

 private:
  std::shared_ptr<const detail::LengthBatches> made_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/samplers/impl/length_batches.ipp>
#endif
