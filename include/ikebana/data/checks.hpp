#pragma once
// Checks whether a dataset and a collate function make batches, and finds the type of a batch.
#include <ikebana/data/batch_fetcher.hpp>
#include <ikebana/grammar/refuse_data.hpp>

namespace ikebana::detail {

template <class D>
constexpr auto sample_type() {
  if constexpr (reads_samples<D>)
    return std::type_identity<decltype(read_sample(std::declval<D&>(), 0, 0))>{};
  else if constexpr (reads_lists<D>)
    return std::type_identity<typename decltype(read_batch(std::declval<D&>(), {},
                                                           0))::value_type>{};
  else return std::type_identity<void>{};  // whole batches
}
template <class D>
using sample_t = typename decltype(sample_type<D>())::type;

template <class Collate, class Sample>
concept Collates = std::is_void_v<Sample> ||
                   std::is_invocable_v<const Collate&, std::vector<Sample>&&, const at::Tensor&> ||
                   std::is_invocable_v<const Collate&, std::vector<Sample>&&>;

template <class D, class Collate>
constexpr auto loader_diagnosis() {
  if constexpr (!AnyDataset<D>) return std::type_identity<refuse::NotADataset<D>>{};
  else if constexpr (!SizedDataset<D>) return std::type_identity<refuse::DatasetWithoutSize<D>>{};
  else if constexpr (Collates<Collate, sample_t<D>>) return std::type_identity<refuse::Nothing>{};
  else if constexpr (std::is_same_v<Collate, DefaultCollate>)
    return std::type_identity<
        refuse::CannotStack<sample_t<D>, typename unstackable<sample_t<D>>::type>>{};
  else return std::type_identity<refuse::CannotCollate<Collate, sample_t<D>>>{};
}
template <class Given, class Collate>
using loader_diagnosis_t =
    typename decltype(loader_diagnosis<dataset_of_t<Given>, Collate>())::type;

template <class Given, class Collate>
concept loads = std::is_same_v<loader_diagnosis_t<Given, Collate>, refuse::Nothing>;

template <class Dataset, class Collate>
using loaded_batch_t = decltype(std::declval<const BatchFetcher<Collate>&>().batch(
    std::declval<Dataset&>(), LoaderPosition(), std::declval<Reading&>()));

}  // namespace ikebana::detail
