#pragma once
// Makes any batch of any epoch from its position alone.
#include <ikebana/batch/empty.hpp>
#include <ikebana/bridge/one_thread.hpp>
#include <ikebana/data/collate.hpp>
#include <ikebana/data/dataset.hpp>
#include <ikebana/data/sample_order.hpp>
#include <ikebana/data/workers.hpp>

namespace ikebana::detail {

/// Calls a collate function. It takes the samples, or the samples and their indices.
template <class Collate, class Sample>
auto call_collate(const Collate& collate, std::vector<Sample>&& samples,
                  const at::Tensor& indices) {
  if constexpr (std::is_invocable_v<const Collate&, std::vector<Sample>&&, const at::Tensor&>)
    return collate(std::move(samples), indices);
  else return collate(std::move(samples));
}

/// RAII: turns gradients, autocast and inference mode off. Batches are data, and the modes of the
/// thread must not change them: operators then do the same in every thread.
class PlainMode {
  c10::InferenceMode no_inference_{false};
  at::NoGradGuard no_gradients_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

/// Call it in a `catch (...)`: throws BadSample with the message of the exception, which is nested
/// in it.
[[noreturn]] void throw_bad_sample(const std::string& what, BatchPosition at);

/// Throws BadSample because the dataset left out every sample of a batch.
[[noreturn]] void throw_none_present(const std::string& indices, BatchPosition at);

/// Adds a sample, unless it is an empty std::optional, by which a dataset leaves it out.
template <class Sample, class Given>
void add_present(std::vector<Sample>& samples, Given&& given) {
  if constexpr (std::is_same_v<Sample, std::decay_t<Given>>) {
    samples.push_back(std::forward<Given>(given));
  } else {
    if (given) samples.push_back(*std::forward<Given>(given));
  }
}

/// Reads and collates batches. Holds no dataset: the loader's own and the workers' copies are read
/// by the same functions.
template <class Collate>
class BatchFetcher {
 public:
  BatchFetcher(std::int64_t samples, const DataLoaderOptions& options, Collate collate)
      : order_(samples, options), collate_(std::move(collate)), seed_(options.seed) {}

  const SampleOrder& order() const { return order_; }
  const Collate& collate_function() const { return collate_; }

  /// Makes the batch at a position from `dataset`, the loader's own or a worker's copy. Several
  /// threads may call it at once if they may read their datasets at once. Throws soon after
  /// `reading.stop` is set.
  template <class Dataset>
  auto batch(Dataset& dataset, BatchPosition at, Reading& reading) const {
    PlainMode plain;
    const at::Tensor indices = order_.indices(at);
    if (indices.numel() != 0) return read(dataset, indices, at, reading);
    auto none = read(dataset, order_.first_index(at), at, reading);  // for the shapes and dtypes
    remove_rows(none, "DataLoader: this rank reads no sample of " + text(at) +
                          ", and no batch without rows can be made of the first one: ");
    return none;
  }

  /// Lists at most four indices of a batch, for an error message.
  std::string some_indices(BatchPosition at) const { return first_indices(order_.indices(at)); }

 private:
  template <class Dataset>
  auto read(Dataset& dataset, const at::Tensor& indices, BatchPosition at, Reading& reading) const {
    if constexpr (reads_samples<Dataset>) {
      return collate(read_samples(dataset, indices, at, reading), indices, at);
    } else {
      auto batch = read_at_once(dataset, indices, at);
      if constexpr (reads_lists<Dataset>) return collate(std::move(batch), indices, at);
      else return batch;
    }
  }
  template <class Dataset>
  auto read_samples(Dataset& dataset, const at::Tensor& indices, BatchPosition at,
                    Reading& reading) const {
    bridge::OneThread one_thread;  // so that sums have the same bits in every thread
    std::vector<present_t<decltype(read_sample(dataset, 0, 0))>> samples;
    samples.reserve(static_cast<std::size_t>(indices.numel()));
    auto* index = static_cast<const std::int64_t*>(indices.const_data_ptr());
    for (std::int64_t i = 0; i < indices.numel(); ++i) {
      if (reading.stop) throw Error("DataLoader: it is being destroyed.");
      reading.begin(index[i]);
      try {
        add_present(samples, read_sample(dataset, index[i],
                                         key(seed_, at.epoch, RngStream::Sample, index[i])));
      } catch (...) {
        throw_bad_sample("get(" + std::to_string(index[i]) + ")", at);
      }
    }
    reading.begin(Reading::none);
    if (samples.empty()) throw_none_present(first_indices(indices), at);
    return samples;
  }

  template <class Dataset>
  auto read_at_once(Dataset& dataset, const at::Tensor& indices, BatchPosition at) const {
    try {
      return read_batch(dataset, indices,
                        key(seed_, at.epoch, RngStream::Batch, order_.number_of_part(at)));
    } catch (...) {
      throw_bad_sample("get_batch(" + first_indices(indices) + ")", at);
    }
  }

  template <class Sample>
  auto collate(std::vector<Sample>&& samples, const at::Tensor& indices, BatchPosition at) const {
    try {
      return call_collate(collate_, std::move(samples), indices);
    } catch (const BadBatch&) {
      throw;
    } catch (...) {
      throw_bad_sample("collating the samples " + first_indices(indices), at);
    }
  }

  /// Lists at most four indices, for an error message.
  static std::string first_indices(const at::Tensor& indices) {
    std::string text;
    for (std::int64_t i = 0; i < std::min<std::int64_t>(indices.numel(), 4); ++i)
      text += (i ? ", " : "") + std::to_string(indices[i].item<std::int64_t>());
    return text + (indices.numel() > 4 ? ", ..." : "");
  }

  SampleOrder order_;
  Collate collate_;
  std::uint64_t seed_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/data/impl/batch_fetcher.ipp>
#endif
