#pragma once
// Defines datasets that are made of others: some samples of one, the samples of several one after
// the other, and the same sample of several.
#include <algorithm>
#include <ikebana/data/dataset.hpp>
#include <tuple>
#include <vector>

namespace ikebana {

namespace detail {

/// Throws BadValue for indices that are no vector of integers, or of samples that do not exist.
std::vector<std::int64_t> subset_indices(const at::Tensor& indices, std::int64_t samples);
/// Throws BadValue for an index of a sample that does not exist.
void check_sample_index(const char* who, std::int64_t index, std::int64_t samples);
[[noreturn]] void throw_sizes_differ(std::int64_t first, std::int64_t other);

/// A dataset that several threads may read at once, or a pointer to one.
template <class Given>
concept SharedDataset = shared_by_workers<dataset_of_t<Given>>;
template <class Given>
const auto& shared_dataset(const Given& given) {
  return std::as_const(dataset_of(const_cast<Given&>(given)));  // dataset_of does not change it
}
/// True if the dataset draws random numbers for its samples.
template <class Given>
inline constexpr bool draws = draws_numbers<const dataset_of_t<Given>>;
/// Reads a sample with the caller's random numbers.
template <class D>
auto get_from(const D& dataset, std::int64_t index, SampleRng& rng) {
  if constexpr (reads_samples<const D>) return adapted(dataset).get(index, rng);
  else return adapted(dataset).get_batch(at::full({1}, index, at::kLong), rng);
}

}  // namespace detail

/// Some samples of a dataset, such as the ones that `random_split` chooses, or a fold: PyTorch's
/// Subset. Sample i is sample `indices[i]` of the dataset, which it keeps or to which it has a
/// pointer. Its random numbers depend on i. The dataset's `get` or `get_batch` must be const.
/// Throws BadValue for indices that do not exist.
///
///     auto parts = stratified_split(labels, {0.9, 0.1});
///     DataLoader train{Subset{&images, parts[0]}, {.batch_size = 64, .shuffle = true}};
template <class Dataset>
class Subset {
 public:
  /// Takes a dataset or a pointer to one that outlives it, and indices of samples (integers, one
  /// dimension), in any order, also repeated.
  Subset(Dataset dataset, const at::Tensor& indices)
      : dataset_(std::move(dataset)),
        indices_(detail::subset_indices(indices, detail::size_of(inner()))) {
    static_assert(detail::SharedDataset<Dataset>,
                  "Subset: the dataset's `get` must be const, since workers share it. Make it "
                  "const and thread-safe.");
  }

  /// Returns the number of chosen samples.
  std::int64_t size() const { return std::ssize(indices_); }
  /// Returns sample `indices[index]` of the dataset.
  auto get(std::int64_t index, SampleRng& rng) const
    requires(detail::reads_samples<const detail::dataset_of_t<Dataset>> && detail::draws<Dataset>)
  {
    return detail::get_from(inner(), chosen(index), rng);
  }
  auto get(std::int64_t index) const
    requires(detail::reads_samples<const detail::dataset_of_t<Dataset>> && !detail::draws<Dataset>)
  {
    SampleRng none(0);
    return detail::get_from(inner(), chosen(index), none);
  }
  /// Returns these samples of a dataset that gives whole batches.
  auto get_batch(const at::Tensor& indices, SampleRng& rng) const
    requires(!detail::reads_samples<const detail::dataset_of_t<Dataset>> && detail::draws<Dataset>)
  {
    return detail::adapted(inner()).get_batch(chosen(indices), rng);
  }
  auto get_batch(const at::Tensor& indices) const
    requires(!detail::reads_samples<const detail::dataset_of_t<Dataset>> && !detail::draws<Dataset>)
  {
    SampleRng none(0);
    return detail::adapted(inner()).get_batch(chosen(indices), none);
  }

 private:
  const auto& inner() const { return detail::shared_dataset(dataset_); }
  std::int64_t chosen(std::int64_t index) const {
    detail::check_sample_index("Subset", index, size());
    return indices_[static_cast<std::size_t>(index)];
  }
  at::Tensor chosen(const at::Tensor& indices) const {
    const std::int64_t* from = detail::index_data("Subset", indices);
    at::Tensor all = at::empty_like(indices);
    auto* to = all.mutable_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < indices.numel(); ++i) to[i] = chosen(from[i]);
    return all;
  }

  Dataset dataset_;
  std::vector<std::int64_t> indices_;
};
template <class Dataset>
Subset(Dataset, at::Tensor) -> Subset<Dataset>;

/// The samples of several datasets, one dataset after the other: PyTorch's ConcatDataset. Each
/// gives samples of the same type one by one, by a const `get`. MixtureSampler mixes them by
/// weights. A sample's random numbers depend on its index in all datasets together.
template <class... Datasets>
class ConcatDataset {
 public:
  /// Takes datasets, or pointers to datasets that outlive it.
  explicit ConcatDataset(Datasets... datasets)
      : datasets_(std::move(datasets)...), ends_(ends(std::index_sequence_for<Datasets...>())) {
    static_assert((detail::SharedDataset<Datasets> && ...),
                  "ConcatDataset: the `get` of each dataset must be const, since workers share it. "
                  "Make it const and thread-safe.");
    static_assert((detail::reads_samples<const detail::dataset_of_t<Datasets>> && ...),
                  "ConcatDataset: a dataset has `get_batch`, and a batch may have samples of "
                  "several datasets. Give each dataset `get(index)`.");
  }

  /// Returns the number of samples of all datasets.
  std::int64_t size() const { return ends_.back(); }
  /// Returns the numbers of samples of the datasets, in their order.
  std::vector<std::int64_t> sizes() const {
    std::vector<std::int64_t> all = ends_;
    for (std::size_t i = all.size() - 1; i > 0; --i) all[i] -= all[i - 1];
    return all;
  }
  /// Returns the sample at an index in all datasets together.
  auto get(std::int64_t index, SampleRng& rng) const
    requires(detail::draws<Datasets> || ...)
  {
    detail::check_sample_index("ConcatDataset", index, size());
    return read<0>(index, rng);
  }
  auto get(std::int64_t index) const
    requires(!(detail::draws<Datasets> || ...))
  {
    SampleRng none(0);
    detail::check_sample_index("ConcatDataset", index, size());
    return read<0>(index, none);
  }

 private:
  template <std::size_t... I>
  std::vector<std::int64_t> ends(std::index_sequence<I...>) const {
    std::int64_t all = 0;
    return {(all += detail::size_of(detail::shared_dataset(std::get<I>(datasets_))))...};
  }
  /// Reads a sample of dataset I or of one after it.
  template <std::size_t I>
  auto read(std::int64_t index, SampleRng& rng) const {
    const std::int64_t begin = I == 0 ? 0 : ends_[I - 1];
    if constexpr (I + 1 < sizeof...(Datasets))
      if (index >= ends_[I]) return read<I + 1>(index, rng);
    return detail::get_from(detail::shared_dataset(std::get<I>(datasets_)), index - begin, rng);
  }

  std::tuple<Datasets...> datasets_;
  std::vector<std::int64_t> ends_;
};

/// A dataset whose sample is a tuple of the samples of several datasets at one index: PyTorch's
/// StackDataset. For example images and labels in two .npy files: `StackDataset{NpyRows{
/// "images.npy"}, NpyRows{"labels.npy"}}`. All have the same number of samples, else it throws
/// BadValue, and all give samples one by one, or all whole batches, without random numbers.
template <class... Datasets>
class StackDataset {
  static constexpr bool by_samples =
      (detail::reads_samples<const detail::dataset_of_t<Datasets>> && ...);

 public:
  /// Takes datasets, or pointers to datasets that outlive it.
  explicit StackDataset(Datasets... datasets) : datasets_(std::move(datasets)...) {
    static_assert((detail::SharedDataset<Datasets> && ...),
                  "StackDataset: the `get` of each dataset must be const, since workers share it. "
                  "Make it const and thread-safe.");
    static_assert(!(detail::draws<Datasets> || ...),
                  "StackDataset: a dataset draws random numbers, which the datasets would not "
                  "share. Stack first, and augment in a dataset around the stack.");
    const std::int64_t first = size();
    each([&](const auto&... all) {
      for (const std::int64_t other : {detail::size_of(all)...})
        if (other != first) detail::throw_sizes_differ(first, other);
      return 0;
    });
  }

  /// Returns the number of samples, which is that of each dataset.
  std::int64_t size() const {
    return detail::size_of(detail::shared_dataset(std::get<0>(datasets_)));
  }
  /// Returns the sample of each dataset.
  auto get(std::int64_t index) const
    requires by_samples
  {
    SampleRng none(0);
    return each(
        [&](const auto&... all) { return std::tuple{detail::get_from(all, index, none)...}; });
  }
  /// Returns the samples of each dataset.
  auto get_batch(const at::Tensor& indices) const
    requires(!by_samples)
  {
    SampleRng none(0);
    return each([&](const auto&... all) {
      return std::tuple{detail::adapted(all).get_batch(indices, none)...};
    });
  }

 private:
  template <class F>
  auto each(const F& f) const {
    return std::apply([&](const Datasets&... all) { return f(detail::shared_dataset(all)...); },
                      datasets_);
  }

  std::tuple<Datasets...> datasets_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/samplers/impl/combined_datasets.ipp>
#endif
