#pragma once
// Defines the DataLoader. It derives everything from (seed, epoch, index), so seeking costs
// nothing.
#include <ikebana/data/loader_core.hpp>
#include <ikebana/data/loop_iterator.hpp>
#include <ikebana/state/state_parts.hpp>
#include <iterator>

namespace ikebana {

/// Gives the batches of a dataset, epoch after epoch. Its position is two numbers, epoch and batch,
/// and exact to the sample.
///
///     DataLoader loader{dataset, {.batch_size = 32, .shuffle = true, .num_workers = 2}};
///     while (loader.epoch() < 10)
///       for (auto& batch : loader) trainer.step(batch);
///
/// A dataset is any class with `size()` and one of `get(index)`, `get(index, SampleRng&)`,
/// `get_batch(const at::Tensor& indices)`, `get_batch(indices, SampleRng&)`; or a dataset of
/// torch::data; or a pointer to a dataset, which must outlive the loader. `get` must be a function
/// of its arguments. Workers share a dataset whose `get` is const; otherwise each has a copy. The
/// third argument, a collate function, makes a batch of a std::vector of samples; the default is
/// DefaultCollate.
///
/// Batches are made without gradients and autocast, and LibTorch's default generators are not used.
/// Costs the memory of num_workers * prefetch_factor batches besides the current one; without
/// workers it uses no thread and no lock. `pin_memory` copies each batch once more, in the thread
/// that makes it; a trainer copies it to its device while the device computes. May be used by one
/// thread at a time. Errors: BadValue for options out of range, BadSample with the message of what
/// `get` threw, or with the index of the sample for which `timeout` was too short, BadBatch if
/// samples do not stack.
template <class Dataset, class Collate = DefaultCollate>
class DataLoader {
  using LoaderCore = detail::LoaderCore<Dataset, Collate>;

 public:
  /// The type of a batch, which the collate function or the dataset returns.
  using Batch = typename LoaderCore::Batch;
  /// The former name of the type of `position()`, which is removed in version 0.2.
  using Position [[deprecated("use BatchPosition")]] = BatchPosition;
  /// The section of its position in a saved state.
  static constexpr const char* state_name = "loader";

  /// Takes the dataset, or a pointer to one that outlives the loader. Throws BadValue for options
  /// out of range.
  explicit DataLoader(Dataset dataset, const DataLoaderOptions& options = {}, Collate collate = {})
      : core_(new LoaderCore(std::move(dataset), options, std::move(collate))) {}

  /// Returns the number of batches per epoch, on each of several ranks.
  std::int64_t size() const { return core_->order().batches(); }
  /// Returns the options that it was made with.
  const DataLoaderOptions& options() const { return core_->options(); }
  /// Returns the present number of workers; with `num_workers = automatic` it changes.
  std::int64_t num_workers() const { return core_->num_workers(); }
  /// Returns a text for people: the samples, the order, the workers, and what loops have waited for
  /// since the workers started.
  std::string describe() const { return core_->describe(); }
  /// Returns the dataset, or the dataset to which the pointer points.
  const auto& dataset() const { return std::as_const(core_->dataset()); }

  /// Returns another loader of the same dataset with other options, such as more workers. It refers
  /// to this loader's dataset, so this loader must outlive it, and has a copy of its collate
  /// function. It begins with the first batch of the first epoch. Only for a dataset whose `get` is
  /// const, since threads of both loaders may read it. Throws BadValue for options out of range.
  auto with_options(const DataLoaderOptions& options) const
    requires detail::shared_by_workers<detail::dataset_of_t<Dataset>> &&
             std::is_copy_constructible_v<Collate>
  {
    using Shared = std::remove_reference_t<decltype(core_->dataset())>*;
    return DataLoader<Shared, Collate>(&core_->dataset(), options, core_->collate());
  }

  /// Returns the epoch of the next batch, from 0.
  std::int64_t epoch() const { return position().epoch; }
  /// The position counts batches that were delivered to a loop, not prefetched ones. In the body of
  /// a loop it is the position of the next batch, so a state that is saved there resumes with that
  /// batch.
  BatchPosition position() const { return core_->position(); }
  /// Sets the position at which the next loop begins. Costs nothing. At {epoch, size()}, the end of
  /// an epoch, the loop is empty. Leave a running loop after this call: its next batch is an error.
  /// Throws BadValue for a position that does not exist.
  void seek(BatchPosition at) { core_->seek(at); }

  /// The iterator of a range-based `for`. Holds the batch, which is destroyed when it is
  /// incremented.
  using Iterator = detail::LoopIterator<LoaderCore>;

  /// Loops from the present position to the end of the epoch; the position is then the beginning of
  /// the next one. After a loop that was left early, the next loop continues with the next batch.
  /// There is one loop at a time.
  Iterator begin() { return Iterator(*core_); }
  /// Returns the end of any loop.
  std::default_sentinel_t end() const { return std::default_sentinel; }

  /// Calls `f(batch)` for each batch of the present epoch, from its first one on. The position is
  /// then what it was, also after an exception, and a loop that is running goes on. This is how
  /// `evaluate` and the validation of `fit` read a loader.
  template <class F>
  void visit(F&& f) {
    core_->visit(f);
  }
  /// Returns whether epochs differ: samples are shuffled, or the dataset draws random numbers.
  bool varies() const { return options().shuffle || LoaderCore::draws; }

  /// Saves and loads the position. Checks the values on which it depends: the dataset's size,
  /// batch_size, shuffle, seed and drop_last. The numbers of workers and of ranks may differ.
  void state(Archive& archive) {
    const auto& order = core_->order();
    BatchPosition at = position();
    archive.number("epoch", at.epoch);
    archive.number("batch", at.batch);
    archive.constant("size", order.samples());
    archive.constant("batch_size", options().batch_size);
    archive.constant("shuffle", options().shuffle);
    archive.constant("seed", options().seed);
    archive.constant("drop_last", options().drop_last);
    state_of_sampler(archive);
    if (archive.checking()) check_position(archive);
    if (archive.loading()) seek(at);
  }

 private:
  // A state without a sampler has no entry, as before samplers existed. Loading it with one, or the
  // other way round, is an error.
  void state_of_sampler(Archive& archive) const {
    constexpr const char* name = "sampler";
    if (options().sampler) return archive.constant(name, options().sampler.hash());
    if (!archive.checking() || !archive.has(name)) return;
    archive.add_mismatch(name, "is saved, and this loader has none");
    archive.ignore(name);
  }
  // Reports a position that `seek` would refuse before anything is loaded, because a file may hold
  // any number.
  void check_position(Archive& archive) const {
    for (const char* name : {"epoch", "batch"}) {
      const at::Tensor* saved = archive.find_like(name, at::scalar_tensor(0, at::kLong));
      std::int64_t number = saved ? saved->item<std::int64_t>() : 0;
      const bool is_batch = std::string_view(name) == "batch";
      if (number < 0 || (is_batch && number > size()))
        archive.add_mismatch(name, "is " + std::to_string(number) + ", of epochs with " +
                                       std::to_string(size()) + " batches");
    }
  }

  std::unique_ptr<LoaderCore, typename LoaderCore::Destroy> core_;
};

/// Reports at compile time why this dataset and this collate function make no loader.
template <class Dataset, class Collate>
  requires(!detail::loads<Dataset, Collate>)
class DataLoader<Dataset, Collate> : detail::loader_diagnosis_t<Dataset, Collate> {
 public:
  explicit DataLoader(Dataset, const DataLoaderOptions& = {}, Collate = {});
};

template <class Dataset>
DataLoader(Dataset) -> DataLoader<Dataset>;
template <class Dataset>
DataLoader(Dataset, DataLoaderOptions) -> DataLoader<Dataset>;
template <class Dataset, class Collate>
DataLoader(Dataset, DataLoaderOptions, Collate) -> DataLoader<Dataset, Collate>;

}  // namespace ikebana
