#pragma once
// Any batch of any epoch, made from nothing but its position.
#include <ikebana/bridge/one_thread.hpp>
#include <ikebana/data/collate.hpp>
#include <ikebana/data/dataset.hpp>
#include <ikebana/data/sample_order.hpp>
#include <ikebana/detail/message.hpp>
#include <stop_token>

namespace ikebana::detail {

/// A collate function takes the samples, or the samples and their indices.
template <class Collate, class Sample>
auto collated(const Collate& collate, std::vector<Sample>&& samples, const at::Tensor& indices) {
  if constexpr (std::is_invocable_v<const Collate&, std::vector<Sample>&&, const at::Tensor&>)
    return collate(std::move(samples), indices);
  else return collate(std::move(samples));
}

/// What operators read besides their arguments is the same in every thread: no gradients, no
/// autocast, no inference mode. A batch is data.
class PlainMode {
  c10::InferenceMode no_inference_{false};
  at::NoGradGuard no_gradients_;
  c10::impl::ExcludeDispatchKeyGuard no_autocast_{c10::autocast_dispatch_keyset};
};

/// For a `catch (...)`: throws BadSample with the text of what was thrown, which is nested in it.
[[noreturn]] inline void cannot_read(const std::string& what, LoaderPosition at) {
  std::string why = "something that is no std::exception";
  try {
    throw;
  } catch (const c10::Error& error) {
    why = message_of(error);
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
  }
  std::throw_with_nested(BadSample(
      "DataLoader: " + what + " (" + text(at) + ") threw: " + why +
      ". The loader stands before this batch: a new loop tries it again, and seek({" +
      std::to_string(at.epoch) + ", " + std::to_string(at.batch + 1) + "}) leaves it out."));
}

/// Holds no dataset: the loader's own and the workers' copies are read by the same functions.
template <class Collate>
class BatchFetcher {
 public:
  BatchFetcher(std::int64_t samples, const DataLoaderOptions& options, Collate collate)
      : order_(samples, options), collate_(std::move(collate)), seed_(options.seed) {}

  const SampleOrder& order() const { return order_; }

  /// Reads from `dataset`, the loader's or a worker's copy. Safe in several threads at once where
  /// their datasets are. Where `stop` is requested it ends early by an exception.
  template <class Reader>
  auto batch(Reader& dataset, LoaderPosition at, const std::stop_token& stop) const {
    PlainMode plain;
    at::Tensor indices = order_.indices(at);
    if constexpr (one_by_one<Reader>) {
      return collate(samples(dataset, indices, at, stop), indices, at);
    } else {
      auto gathered = gather(dataset, indices, at);
      if constexpr (gives_list<Reader>) return collate(std::move(gathered), indices, at);
      else return gathered;
    }
  }

 private:
  template <class Reader>
  auto samples(Reader& dataset, const at::Tensor& indices, LoaderPosition at,
               const std::stop_token& stop) const {
    bridge::OneThread one_thread;
    std::vector<decltype(sample_of(dataset, 0, 0))> samples;
    samples.reserve(static_cast<std::size_t>(indices.numel()));
    auto* index = indices.const_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < indices.numel(); ++i) {
      if (stop.stop_requested()) throw Error("DataLoader: it is being destroyed.");
      try {
        samples.push_back(
            sample_of(dataset, index[i], key(seed_, at.epoch, RngStream::Sample, index[i])));
      } catch (...) {
        cannot_read("get(" + std::to_string(index[i]) + ")", at);
      }
    }
    return samples;
  }

  template <class Reader>
  auto gather(Reader& dataset, const at::Tensor& indices, LoaderPosition at) const {
    try {
      return gathered_from(dataset, indices, key(seed_, at.epoch, RngStream::Batch, at.batch));
    } catch (...) {
      cannot_read("get_batch(" + few(indices) + ")", at);
    }
  }

  template <class Sample>
  auto collate(std::vector<Sample>&& samples, const at::Tensor& indices, LoaderPosition at) const {
    try {
      return collated(collate_, std::move(samples), indices);
    } catch (const BadBatch&) {
      throw;
    } catch (...) {
      cannot_read("collating the samples " + few(indices), at);
    }
  }

  static std::string few(const at::Tensor& indices) {
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
