#pragma once
// What a loader takes for a dataset, and how it is asked.
#include <ikebana/data/sample_rng.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/error.hpp>
#include <memory>

namespace ikebana::detail {

// A dataset: any class with size() and one of these. Whichever stands first is asked.
template <class D>
concept GathersDrawing =
    requires(D& d, const at::Tensor& indices, SampleRng& draw) { d.get_batch(indices, draw); };
template <class D>
concept Gathers = requires(D& d, const at::Tensor& indices) { d.get_batch(indices); };
template <class D>
concept GetsDrawing = requires(D& d, std::int64_t index, SampleRng& draw) { d.get(index, draw); };
template <class D>
concept Gets = requires(D& d, std::int64_t index) { d.get(index); };
template <class D>  // torch::data::datasets: a MapDataset has no `get`
concept GathersList = requires(D& d, c10::ArrayRef<std::size_t> list) { d.get_batch(list); };

template <class D>
concept Readable = GathersDrawing<D> || Gathers<D> || GetsDrawing<D> || Gets<D> || GathersList<D>;
template <class D>
concept Sized = requires(const D& d) { d.size(); };

/// A dataset, or the one that a pointer to it refers to.
template <class Given>
auto& dataset_of(Given& given) {
  if constexpr (!Readable<Given> && requires { *given; }) return *given;
  else return given;
}
template <class Given>
using dataset_of_t = std::remove_reference_t<decltype(dataset_of(std::declval<Given&>()))>;

/// Throws BadValue where the dataset does not know its size.
template <class D>
std::int64_t samples_of(const D& dataset) {
  if constexpr (requires { dataset.size().has_value(); }) {
    if (!dataset.size())
      throw BadValue(
          "DataLoader: size() of the dataset is empty. A loader that resumes at the exact sample "
          "needs a dataset of known size.");
    return static_cast<std::int64_t>(*dataset.size());
  } else {
    return static_cast<std::int64_t>(dataset.size());
  }
}

/// One sample. Operators inside use one thread, so that sums come out the same in every thread.
template <class D>
auto sample_of(D& dataset, std::int64_t index, std::uint64_t key) {
  if constexpr (GetsDrawing<D>) {
    SampleRng draw(key);
    return dataset.get(index, draw);
  } else {
    return dataset.get(index);
  }
}

/// Samples that a dataset gives all at once: a batch, or a list that is still to be stacked.
template <class D>
auto gathered_from(D& dataset, const at::Tensor& indices, std::uint64_t key) {
  if constexpr (GathersDrawing<D>) {
    SampleRng draw(key);
    return dataset.get_batch(indices, draw);
  } else if constexpr (Gathers<D>) {
    return dataset.get_batch(indices);
  } else {
    auto* index = indices.const_data_ptr<std::int64_t>();
    std::vector<std::size_t> list(index, index + indices.numel());
    return dataset.get_batch(list);
  }
}

/// Whether a dataset is asked sample by sample.
template <class D>
inline constexpr bool one_by_one = !GathersDrawing<D> && !Gathers<D> && (GetsDrawing<D> || Gets<D>);

/// Whether what it gives at once is a list of samples, as LibTorch's datasets without Stack do.
template <class D>
inline constexpr bool gives_list = [] {
  if constexpr (!GathersDrawing<D> && !Gathers<D> && !one_by_one<D> && GathersList<D>)
    return made_from<decltype(std::declval<D&>().get_batch(c10::ArrayRef<std::size_t>())),
                     std::vector>;
  else return false;
}();

// A `get` that is const is safe to be called by several threads, as everywhere in C++: workers
// share the dataset. One that is not const may have a file or a cache: each worker has a copy.
template <class D>
inline constexpr bool shared_by_workers = Readable<const D>;

}  // namespace ikebana::detail
