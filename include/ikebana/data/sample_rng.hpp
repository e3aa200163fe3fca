#pragma once
// Random numbers for one sample.
#include <ikebana/data/options.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/detail/torch.hpp>
#include <optional>

namespace ikebana {

/// What a dataset draws from: `get(index, SampleRng&)`. Its numbers are a function of the loader's seed,
/// the epoch and the sample's index (for `get_batch(indices, SampleRng&)`: the batch's number), so the
/// same whoever reads the sample, when, and with which batch size. Costs nothing until it is used.
class SampleRng {
 public:
  explicit SampleRng(std::uint64_t key) : key_(key) {}

  /// What LibTorch's functions take: `at::rand({3}, draw.generator())`. The first call seeds it,
  /// which takes about 2 us. LibTorch's generators keep 32 bits of a seed, so among many million
  /// samples some draw alike.
  at::Generator& generator() {
    if (!generator_)
      generator_ = at::detail::createCPUGenerator(detail::key(key_, detail::RngStream::Generator));
    return *generator_;
  }
  /// In [0, 1), of 53 bits; some nanoseconds.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// An integer in [0, high), for a `high` of 1 or more; some nanoseconds.
  std::int64_t randint(std::int64_t high) {
    return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high));
  }

 private:
  std::uint64_t next() { return detail::mix(key_ + ++drawn_ * detail::golden); }

  std::uint64_t key_, drawn_ = 0;
  std::optional<at::Generator> generator_;
};

}  // namespace ikebana
