#pragma once
// Defines random numbers for the augmentation of one sample.
#include <ikebana/data/options.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/detail/torch.hpp>
#include <optional>

namespace ikebana {

/// The random generator that a dataset receives: `get(index, SampleRng&)`. Its numbers are a
/// function of the loader's seed, the epoch and the sample's index (for `get_batch(indices,
/// SampleRng&)`, of the batch's number, the rank and the number of ranks). So the numbers of a
/// sample depend on neither the worker, the time, the batch size nor the number of ranks. Costs
/// nothing until it is used.
class SampleRng {
 public:
  /// `key` determines all numbers. A loader makes it from the seed, the epoch and the index.
  explicit SampleRng(std::uint64_t key) : key_(key) {}

  /// Returns the number that determines all numbers of the sample. `SampleRng(key)` draws them
  /// again, for example on a device where the batch is transformed.
  std::uint64_t key() const { return key_; }
  /// Returns a generator for LibTorch's functions: `at::rand({3}, rng.generator())`. The first call
  /// seeds it, which takes about 2 us. LibTorch's generators keep 32 bits of a seed, so among many
  /// millions of samples some pairs draw the same numbers.
  at::Generator& generator();
  /// Draws a number in [0, 1) with 53 random bits. Takes some nanoseconds.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// Draws an integer in [0, high). Takes some nanoseconds. Throws BadValue if `high` is below 1.
  std::int64_t randint(std::int64_t high);

 private:
  std::uint64_t next() { return detail::mix(key_ + ++drawn_ * detail::golden); }

  std::uint64_t key_, drawn_ = 0;
  std::optional<at::Generator> generator_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/data/impl/sample_rng.ipp>
#endif
