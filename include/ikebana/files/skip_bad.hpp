#pragma once
// Defines the dataset that leaves out damaged files and counts them.
#include <ikebana/data/dataset.hpp>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ikebana {

/// Options of SkipBad.
struct SkipBadOptions {
  /// The number of different samples that may be bad; one more is an error. 0 allows none.
  std::int64_t max = 100;
};

/// A sample that SkipBad has left out.
struct BadEntry {
  std::int64_t index;   ///< in the dataset
  std::string message;  ///< the text of the BadFile, with the path
};

namespace detail {

/// The samples that were found bad. Copies of a dataset share it.
class BadSamples {
 public:
  explicit BadSamples(std::int64_t max);

  /// Adds a sample unless it is known. Call it in the `catch` of its BadFile: throws BadFile with
  /// that nested if there are more than `max` by now.
  void add(std::int64_t index, const std::string& message);
  std::int64_t count() const;
  std::vector<BadEntry> entries() const;

 private:
  std::int64_t max_;
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::string> bad_;
};

}  // namespace detail

/// Leaves out samples whose file is damaged. `get` returns a std::optional, which is empty for a
/// sample of which the dataset throws BadFile. Other errors pass.
///
///     DataLoader loader{SkipBad{dataset, {.max = 20}}, {.batch_size = 32, .num_workers = 2}};
///
/// The size stays, so order and position are the whole dataset's. Each bad sample is counted
/// once, also in many epochs. Thread-safe as the dataset; copies share the count. Costs nothing for
/// a sample that is not bad. `get` throws BadFile, which lists the first ones, at the first bad
/// sample beyond `max`. Throws BadValue for a `max` below 0.
template <class Dataset>
class SkipBad {
  using Inner = detail::dataset_of_t<Dataset>;
  static_assert(detail::reads_samples<Inner>,
                "ikebana: SkipBad leaves out single samples, and this dataset has no get(index). "
                "Give it one, or leave bad samples out in its get_batch.");
  static constexpr bool draws = detail::draws_numbers<Inner>;
  static constexpr bool is_shared = detail::shared_by_workers<Inner>;

 public:
  /// Takes the dataset, or a pointer to one that outlives this.
  explicit SkipBad(Dataset dataset, SkipBadOptions options = {})
      : dataset_(std::move(dataset)), bad_(std::make_shared<detail::BadSamples>(options.max)) {}

  /// Returns the number of samples, with the bad ones.
  std::int64_t size() const { return detail::size_of(detail::dataset_of(dataset_)); }
  /// Returns the dataset.
  const auto& dataset() const { return detail::dataset_of(dataset_); }
  /// Returns the number of different samples that were bad until now.
  std::int64_t count() const { return bad_->count(); }
  /// Returns the samples that were bad until now, by index.
  std::vector<BadEntry> bad() const { return bad_->entries(); }

  /// Reads a sample; empty if its file is damaged.
  auto get(std::int64_t index) const
    requires(!draws && is_shared)
  {
    return read(index, [&] { return detail::dataset_of(dataset_).get(index); });
  }
  auto get(std::int64_t index, SampleRng& rng) const
    requires(draws && is_shared)
  {
    return read(index, [&] { return detail::dataset_of(dataset_).get(index, rng); });
  }
  auto get(std::int64_t index)
    requires(!draws && !is_shared)
  {
    return read(index, [&] { return detail::dataset_of(dataset_).get(index); });
  }
  auto get(std::int64_t index, SampleRng& rng)
    requires(draws && !is_shared)
  {
    return read(index, [&] { return detail::dataset_of(dataset_).get(index, rng); });
  }

 private:
  template <class Get>
  auto read(std::int64_t index, const Get& get) const {
    std::optional<std::decay_t<decltype(get())>> sample;
    try {
      sample.emplace(get());
    } catch (const BadFile& error) {
      bad_->add(index, error.what());
    }
    return sample;
  }

  Dataset dataset_;
  std::shared_ptr<detail::BadSamples> bad_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/skip_bad.ipp>
#endif
