#pragma once
// Defines the datasets that a DataLoader accepts, and the functions that read samples from them.
#include <ikebana/data/sample_rng.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/error.hpp>
#include <memory>
#include <optional>

namespace ikebana::detail {

/// A dataset that gives one sample at a time.
template <class D>
concept SampleDataset = requires(D& d, std::int64_t index, SampleRng& rng) { d.get(index, rng); };
/// A dataset that gives all samples of a batch at once.
template <class D>
concept BatchDataset =
    requires(D& d, const at::Tensor& indices, SampleRng& rng) { d.get_batch(indices, rng); };

/// Adapts a dataset whose `get` or `get_batch` takes no SampleRng.
template <class D>
struct WithoutRng {
  D& dataset;

  decltype(auto) get(std::int64_t index, SampleRng&) const
    requires requires(D& d) { d.get(index); }
  {
    return dataset.get(index);
  }
  decltype(auto) get_batch(const at::Tensor& indices, SampleRng&) const
    requires requires(D& d) { d.get_batch(indices); }
  {
    return dataset.get_batch(indices);
  }
};

/// Adapts a dataset of torch::data, whose `get_batch` takes a list of indices.
template <class D>
struct TorchDataDataset {
  D& dataset;

  decltype(auto) get_batch(const at::Tensor& indices, SampleRng&) const
    requires requires(D& d, c10::ArrayRef<std::size_t> list) { d.get_batch(list); }
  {
    auto* index = static_cast<const std::int64_t*>(indices.const_data_ptr());
    std::vector<std::size_t> list(index, index + indices.numel());
    return dataset.get_batch(list);
  }
};

/// Returns the dataset as a BatchDataset or a SampleDataset; void if it is neither and no adapter
/// fits. If a dataset has several of the five forms, the first one is used.
template <class D>
decltype(auto) adapted(D& dataset) {
  if constexpr (BatchDataset<D>) return (dataset);
  else if constexpr (BatchDataset<WithoutRng<D>>) return WithoutRng<D>{dataset};
  else if constexpr (SampleDataset<D>) return (dataset);
  else if constexpr (SampleDataset<WithoutRng<D>>) return WithoutRng<D>{dataset};
  else if constexpr (BatchDataset<TorchDataDataset<D>>) return TorchDataDataset<D>{dataset};
}
template <class D>
using adapted_t = std::remove_reference_t<decltype(adapted(std::declval<D&>()))>;

template <class D>
concept AnyDataset = !std::is_void_v<adapted_t<D>>;
template <class D>
concept SizedDataset = requires(const D& d) { d.size(); };

/// True if the method that is used takes random numbers.
template <class D>
inline constexpr bool draws_numbers = AnyDataset<D> && std::is_same_v<adapted_t<D>, D>;

/// True if samples are read one by one.
template <class D>
inline constexpr bool reads_samples = AnyDataset<D> && !BatchDataset<adapted_t<D>>;

/// The sample of a dataset that may leave samples out by returning an empty std::optional.
template <class Given>
struct present : std::type_identity<Given> {};
template <class Sample>
struct present<std::optional<Sample>> : std::type_identity<Sample> {};
template <class Given>
using present_t = typename present<std::decay_t<Given>>::type;

/// Returns the dataset itself, or the dataset to which a pointer refers.
template <class Given>
auto& dataset_of(Given& given) {
  if constexpr (!AnyDataset<Given> && requires { *given; }) {
    if constexpr (requires { given == nullptr; })
      if (given == nullptr)
        throw BadValue("DataLoader: the pointer to its dataset is null. Make the dataset first.");
    return *given;
  } else {
    return given;
  }
}
template <class Given>
using dataset_of_t = std::remove_reference_t<decltype(dataset_of(std::declval<Given&>()))>;

/// Returns the indices, which are Long on the host, in one piece of memory. Throws BadValue for
/// others, which would be read as if they were.
const std::int64_t* index_data(const char* who, const at::Tensor& indices);

/// Returns the number of samples. Throws BadValue if the dataset does not know it.
template <class D>
std::int64_t size_of(const D& dataset) {
  if constexpr (requires { dataset.size().has_value(); }) {
    if (!dataset.size())
      throw BadValue(
          "DataLoader: size() of the dataset is empty; resuming at the exact sample needs a known "
          "size. Return the number of samples.");
    return static_cast<std::int64_t>(*dataset.size());
  } else {
    return static_cast<std::int64_t>(dataset.size());
  }
}

/// Reads one sample. `key` determines its random numbers.
template <class D>
auto read_sample(D& dataset, std::int64_t index, std::uint64_t key) {
  SampleRng rng(key);
  return adapted(dataset).get(index, rng);
}

/// Reads all samples of a batch at once. `key` determines their random numbers.
template <class D>
auto read_batch(D& dataset, const at::Tensor& indices, std::uint64_t key) {
  SampleRng rng(key);
  return adapted(dataset).get_batch(indices, rng);
}

/// True if `read_batch` returns a list of samples, which the collate function then stacks, as for
/// torch::data's datasets without Stack.
template <class D>
inline constexpr bool reads_lists = [] {
  if constexpr (std::is_same_v<adapted_t<D>, TorchDataDataset<D>>)
    return made_from<decltype(read_batch(std::declval<D&>(), {}, 0)), std::vector>;
  else return false;
}();

// A const `get` can be called by several threads at once, as const means everywhere in C++, so
// workers share the dataset. A `get` that is not const may use a file or a cache, so each worker
// has a copy.
template <class D>
inline constexpr bool shared_by_workers = AnyDataset<const D>;

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/data/impl/dataset.ipp>
#endif
