#pragma once
// Defines samplers: which samples an epoch has, in which order.
#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace ikebana {

/// The values on which a sampler's choice depends. The same values must give the same choice, on
/// every rank and in every thread: then a loader resumes at the exact sample.
struct SampledEpoch {
  std::int64_t samples = 0;  ///< the number of samples of the dataset
  std::int64_t epoch = 0;    ///< from 0
  std::uint64_t seed = 0;    ///< the loader's
};

/// A sampler chooses the sample at each position of an epoch: `size(samples)` returns the number of
/// positions, which is the same in each epoch, and `index(position, epoch)` a sample's index.
template <class S>
concept PositionSampler = requires(const S& s, std::int64_t i, const SampledEpoch& epoch) {
  { s.size(i) } -> std::convertible_to<std::int64_t>;
  { s.index(i, epoch) } -> std::convertible_to<std::int64_t>;
};
/// A batch sampler chooses whole batches: `size(samples)` returns the number of batches, which is
/// the same in each epoch, and `batch(number, epoch)` the indices of one, of all ranks together.
template <class S>
concept BatchSampler = requires(const S& s, std::int64_t i, const SampledEpoch& epoch) {
  { s.size(i) } -> std::convertible_to<std::int64_t>;
  { s.batch(i, epoch) } -> std::convertible_to<std::vector<std::int64_t>>;
};

/// Any sampler, as a value: the option `sampler` of a loader. `<ikebana/samplers.hpp>` has
/// PyTorch's, and buckets by length. Your own is a class with `size` and `index`, or `size` and
/// `batch`, which are const and may be called by several threads at once:
///
///     struct EverySecond {
///       std::int64_t size(std::int64_t samples) const { return samples / 2; }
///       std::int64_t index(std::int64_t position, const SampledEpoch&) const {
///         return 2 * position;
///       }
///     };
///     DataLoader loader{dataset, {.batch_size = 32, .sampler = EverySecond{}}};
///
/// A sampler with `std::uint64_t hash() const` is compared with the one of a saved state. A small
/// value that shares the sampler when it is copied.
class Sampler {
 public:
  /// No sampler: all samples, in order or shuffled.
  Sampler() = default;
  /// Takes a sampler, such as BucketSampler, or one of your own.
  template <class S>
    requires(PositionSampler<S> || BatchSampler<S>)
  Sampler(S sampler) : chooses_(std::make_shared<const Holder<S>>(std::move(sampler))) {}

  /// Returns whether there is one.
  explicit operator bool() const { return chooses_ != nullptr; }
  /// Returns whether it chooses whole batches.
  bool makes_batches() const { return chooses_->makes_batches(); }
  /// Returns the number of its positions, or of its batches, per epoch.
  std::int64_t size(std::int64_t samples) const { return chooses_->size(samples); }
  /// Returns the index of the sample at a position.
  std::int64_t index(std::int64_t position, const SampledEpoch& epoch) const {
    return chooses_->index(position, epoch);
  }
  /// Returns the indices of a batch's samples.
  std::vector<std::int64_t> batch(std::int64_t number, const SampledEpoch& epoch) const {
    return chooses_->batch(number, epoch);
  }
  /// Returns the sampler's hash; 0 if it has none.
  std::uint64_t hash() const { return chooses_ ? chooses_->hash() : 0; }

 private:
  struct Chooses {
    virtual ~Chooses() = default;
    virtual bool makes_batches() const = 0;
    virtual std::int64_t size(std::int64_t samples) const = 0;
    virtual std::int64_t index(std::int64_t position, const SampledEpoch& epoch) const = 0;
    virtual std::vector<std::int64_t> batch(std::int64_t number,
                                            const SampledEpoch& epoch) const = 0;
    virtual std::uint64_t hash() const = 0;
  };
  template <class S>
  struct Holder final : Chooses {
    explicit Holder(S s) : sampler(std::move(s)) {}
    bool makes_batches() const override { return BatchSampler<S>; }
    std::int64_t size(std::int64_t samples) const override { return sampler.size(samples); }
    std::int64_t index(std::int64_t position, const SampledEpoch& epoch) const override {
      if constexpr (PositionSampler<S>) return sampler.index(position, epoch);
      else return 0;
    }
    std::vector<std::int64_t> batch(std::int64_t number, const SampledEpoch& epoch) const override {
      if constexpr (BatchSampler<S>) return sampler.batch(number, epoch);
      else return {};
    }
    std::uint64_t hash() const override {
      if constexpr (requires { sampler.hash(); }) return sampler.hash();
      else return 0;
    }
    S sampler;
  };

  std::shared_ptr<const Chooses> chooses_;
};

}  // namespace ikebana
