#pragma once
// RamCache: keeps the samples of a dataset in memory.
#include <atomic>
#include <ikebana/data/dataset.hpp>
#include <ikebana/detail/bytes.hpp>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace ikebana {

/// Options of a RamCache.
struct RamCacheOptions {
  std::int64_t max_bytes = 0;  ///< bytes of all samples that are kept: `GiB(8)`
};

/// Counts of a cache since it was made.
struct CacheCounts {
  std::int64_t hits = 0;      ///< samples that the cache had
  std::int64_t misses = 0;    ///< samples that the dataset made
  std::int64_t not_kept = 0;  ///< misses that the cache had no room for
  std::int64_t damaged = 0;   ///< misses because a file was damaged (DiskCache)
  std::int64_t bytes = 0;     ///< bytes that the cache holds
};

namespace detail {

/// Reports at compile time a dataset whose samples cannot be kept.
template <class Dataset>
constexpr void check_cached() {
  using D = dataset_of_t<Dataset>;
  static_assert(!draws_numbers<D>,
                "ikebana: a cache would give the same random numbers in every epoch: the dataset's "
                "`get` takes a SampleRng. Cache the dataset before its augmentation, in a dataset "
                "around which the augmented one is made.");
  static_assert(
      draws_numbers<D> || requires(const D& d) { d.get(std::int64_t()); },
      "ikebana: a cache takes a dataset with `get(index) const`, which several threads "
      "may call. Make `get` const.");
}

template <class D>
constexpr auto cached_sample() {
  if constexpr (requires(const D& d) { d.get(std::int64_t()); })
    return std::type_identity<std::decay_t<decltype(std::declval<const D&>().get(0))>>{};
  else return std::type_identity<int>{};  // check_cached reports it
}
template <class Dataset>
using cached_sample_t = typename decltype(cached_sample<dataset_of_t<Dataset>>())::type;

/// The counts of a cache that several threads use.
struct SharedCounts {
  std::atomic<std::int64_t> hits{0}, misses{0}, not_kept{0}, damaged{0}, bytes{0};

  CacheCounts read() const { return {hits, misses, not_kept, damaged, bytes}; }
  /// Adds bytes if they fit. Returns whether they do.
  bool take(std::int64_t n, std::int64_t max);
};

/// Returns a copy of a sample whose tensors share no memory with it.
template <class Sample>
Sample deep_copy(const Sample& sample) {
  Sample copy = sample;
  for_each_tensor(copy, [](at::Tensor& t) {
    if (t.defined()) t = t.clone();
  });
  return copy;
}

/// Returns the bytes of a sample's tensors and texts.
template <class T>
std::int64_t bytes_of_sample(const T& value) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    return value.defined() ? static_cast<std::int64_t>(value.nbytes()) + 200 : 8;
  } else if constexpr (Text<T>) {
    return static_cast<std::int64_t>(std::string_view(value).size() + sizeof(T));
  } else if constexpr (HasParts<T> || ShowsParts<T>) {
    std::int64_t bytes = 0;
    for_each_part(value, [&](const auto& part, auto&&) {
      bytes += bytes_of_sample<std::remove_cvref_t<decltype(part)>>(part);
    });
    return bytes;
  } else {
    return static_cast<std::int64_t>(sizeof(T));
  }
}

}  // namespace detail

/// A dataset that keeps the samples of another one in memory, so that each is made once, such as
/// decoded images: `RamCache{images, {.max_bytes = GiB(8)}}`. Once `max_bytes` are held, further
/// samples are made each time; none is ever replaced, since a shuffled epoch reads each sample
/// once.
///
/// `get` returns copies: a change of a sample or of a batch never reaches the cache. Several
/// threads may call it. Copies of a RamCache share its samples. Takes the dataset, or a pointer to
/// one that outlives it; its `get(index)` must be const and take no SampleRng. Throws BadValue
/// without `max_bytes`.
template <class Dataset>
class RamCache {
 public:
  using Sample = detail::cached_sample_t<Dataset>;  ///< the result of `get`

  /// Takes the dataset, or a pointer to it, and the memory that samples may take.
  explicit RamCache(Dataset dataset, const RamCacheOptions& options = {})
      : shared_(std::make_shared<Shared>(std::move(dataset), options)) {
    detail::check_cached<Dataset>();
    if (options.max_bytes < 1)
      throw BadValue("RamCache: max_bytes is " + std::to_string(options.max_bytes) +
                     ". Set the memory that samples may take, such as GiB(8).");
  }

  /// Returns the number of samples.
  std::int64_t size() const { return detail::size_of(detail::dataset_of(shared_->dataset)); }
  /// Returns a copy of a sample, which the dataset makes if the cache does not have it.
  Sample get(std::int64_t index) const {
    Shared& shared = *shared_;
    if (const auto kept = shared.find(index)) {
      ++shared.counts.hits;
      return detail::deep_copy(*kept);
    }
    Sample sample = std::as_const(detail::dataset_of(shared.dataset)).get(index);
    ++shared.counts.misses;
    shared.keep(index, sample);
    return sample;
  }
  /// Returns what the cache has done so far, in all its copies.
  CacheCounts counts() const { return shared_->counts.read(); }

 private:
  struct Shared {
    Dataset dataset;
    RamCacheOptions options;
    detail::SharedCounts counts{};
    std::mutex mutex{};
    std::unordered_map<std::int64_t, std::shared_ptr<const Sample>> samples{};

    Shared(Dataset d, const RamCacheOptions& o) : dataset(std::move(d)), options(o) {}
    std::shared_ptr<const Sample> find(std::int64_t index) {
      const std::lock_guard lock(mutex);
      const auto found = samples.find(index);
      return found == samples.end() ? nullptr : found->second;
    }
    void keep(std::int64_t index, const Sample& sample) {
      const std::int64_t bytes = detail::bytes_of_sample(sample);
      if (!counts.take(bytes, options.max_bytes)) return;
      auto copy = std::make_shared<const Sample>(detail::deep_copy(sample));
      const std::lock_guard lock(mutex);
      if (!samples.emplace(index, std::move(copy)).second) counts.bytes -= bytes;
    }
  };

  std::shared_ptr<Shared> shared_;
};

template <class Dataset>
RamCache(Dataset, RamCacheOptions) -> RamCache<Dataset>;

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/ram_cache.ipp>
#endif
