#pragma once
// The loader. Everything is derived from (seed, epoch, index), so any position is reached at once.
#include <ikebana/data/loader_core.hpp>
#include <ikebana/state/archive.hpp>
#include <iterator>

namespace ikebana {

/// Batches of a dataset, epoch after epoch; the exact sample at which it stands is two numbers.
///
///     DataLoader loader{dataset, {.batch_size = 32, .shuffle = true, .num_workers = 2}};
///     while (loader.epoch() < 10)
///       for (auto& batch : loader) trainer.step(batch);
///
/// A dataset is any class with `size()` and one of `get(index)`, `get(index, SampleRng&)`,
/// `get_batch(const at::Tensor& indices)`, `get_batch(indices, SampleRng&)`; also LibTorch's datasets;
/// or a pointer to one, which must live as long. `get` must be a function of its arguments. Workers
/// share a dataset whose `get` is const, and have copies of one whose is not. A third argument
/// makes a batch of a std::vector of samples where DefaultCollate does not.
///
/// Batches are data: made without gradients and autocast, and LibTorch's default generators are
/// never touched. Holds num_workers * prefetch_factor batches besides the loop's; without workers
/// there is no thread and no lock. Belongs to one thread at a time. Errors: BadValue for options
/// that cannot be, BadSample with the text of what `get` threw, BadBatch where samples differ.
template <class Dataset, class Collate = DefaultCollate>
class DataLoader {
  using LoaderCore = detail::LoaderCore<Dataset, Collate>;

 public:
  using Batch = typename LoaderCore::Batch;
  using Position = LoaderPosition;
  static constexpr const char* state_name = "loader";

  explicit DataLoader(Dataset dataset, const DataLoaderOptions& options = {}, Collate collate = {})
      : core_(std::make_unique<LoaderCore>(std::move(dataset), options, std::move(collate))) {}

  /// Batches an epoch.
  std::int64_t size() const { return core_->order().batches(); }
  const DataLoaderOptions& options() const { return core_->options(); }
  const auto& dataset() const { return std::as_const(core_->dataset()); }

  std::int64_t epoch() const { return position().epoch; }
  /// Counts what was delivered to a loop, not what is ready. In the loop's body it is the batch
  /// after this one; a state saved there after the step goes on with it.
  Position position() const { return core_->position(); }
  /// The next loop goes on there, at no cost. {epoch, size()} is the end of an epoch: its loop is
  /// empty. A loop that runs must be left; its next batch would be an error. Throws BadValue for a
  /// position that is not there.
  void seek(Position at) { core_->seek(at); }

  /// What `for` walks over. Holds the batch, which lives until the next one is asked for.
  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;

    Iterator() = default;
    explicit Iterator(LoaderCore& loading) : core_(&loading), loop_(loading.enter()) { ++*this; }
    Batch& operator*() const { return *batch_; }
    Iterator& operator++() {
      batch_.reset();  // its memory is free before the next is made
      batch_ = core_->next(loop_);
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !batch_.has_value(); }

   private:
    LoaderCore* core_ = nullptr;
    std::uint64_t loop_ = 0;
    mutable std::optional<Batch> batch_;
  };

  /// From where the loader stands to the end of the epoch; then it stands at the next one's begin.
  /// A loop that was left early goes on with the next. There is one loop at a time.
  Iterator begin() { return Iterator(*core_); }
  std::default_sentinel_t end() const { return std::default_sentinel; }

  /// Saves and loads the position, and checks what makes it mean the same: the dataset's size,
  /// batch_size, shuffle, seed, drop_last. Workers may be others.
  void state(Archive& archive) {
    const auto& order = core_->order();
    Position at = position();
    archive.number("epoch", at.epoch);
    archive.number("batch", at.batch);
    archive.constant("size", order.samples());
    archive.constant("batch_size", options().batch_size);
    archive.constant("shuffle", options().shuffle);
    archive.constant("seed", options().seed);
    archive.constant("drop_last", options().drop_last);
    if (archive.checking()) check_within(archive);
    if (archive.loading()) seek(at);
  }

 private:
  // A file may hold any number; what `seek` would refuse is refused before anything is loaded.
  void check_within(Archive& archive) const {
    for (const char* name : {"epoch", "batch"}) {
      const at::Tensor* given = archive.given(name, at::scalar_tensor(0, at::kLong));
      std::int64_t number = given ? given->item<std::int64_t>() : 0;
      bool is_batch = std::string_view(name) == "batch";
      if (number < 0 || (is_batch && number > size()))
        archive.does_not_fit(name, "is " + std::to_string(number) + ", of epochs with " +
                                       std::to_string(size()) + " batches");
    }
  }

  std::unique_ptr<LoaderCore> core_;
};

/// Says why there is no such loader.
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
