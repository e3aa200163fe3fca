#pragma once
// Defines the implementation of a DataLoader. Its address does not change when the loader is moved,
// because threads and iterators refer to it.
#include <ikebana/data/batch_fetcher.hpp>
#include <ikebana/data/workers.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/grammar/refuse_data.hpp>

namespace ikebana::detail {

/// Returns whether batches are pinned: if the user asked for it, and a device exists for which
/// memory can be pinned.
bool pins_memory(bool asked_for);

/// Returns how many workers a loader begins with, and may have.
WorkerCounts worker_counts(std::int64_t num_workers);

/// Returns what `DataLoader::describe` says.
std::string describe_loader(const DataLoaderOptions& options, const SampleOrder& order,
                            BatchPosition at, std::int64_t workers, const WorkerTimes& times);

/// Copies the tensors of a batch to pinned memory. Sparse tensors, and tensors on a device, stay.
template <class Batch>
void pin(Batch& batch) {
  for_each_tensor(batch, [](at::Tensor& t) {
    if (t.defined() && t.is_cpu() && t.layout() == at::kStrided) t = t.pin_memory();
  });
}

template <class D>
constexpr auto sample_type() {
  if constexpr (reads_samples<D>)
    return std::type_identity<present_t<decltype(read_sample(std::declval<D&>(), 0, 0))>>{};
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
    std::declval<Dataset&>(), BatchPosition(), std::declval<Reading&>()));

template <class Given, class Collate>
class LoaderCore {
 public:
  using Dataset = dataset_of_t<Given>;
  using Batch = loaded_batch_t<Dataset, Collate>;
  static constexpr bool draws = draws_numbers<Dataset>;

  LoaderCore(Given dataset, const DataLoaderOptions& options, Collate collate)
      : options_((check(options), options)),
        given_(std::move(dataset)),
        pins_memory_(pins_memory(options.pin_memory)),
        fetcher_(size_of(this->dataset()), options, std::move(collate)) {
    if constexpr (!shared_by_workers<Dataset>)
      if (options.num_workers == automatic)
        throw BadValue(
            "DataLoader: num_workers is automatic, and the dataset's `get` is not const, so each "
            "worker would need a copy. Make `get` const and thread-safe, or choose a number.");
    if constexpr (!shared_by_workers<Dataset> && !std::is_copy_constructible_v<Dataset>)
      if (options.num_workers > 1)
        throw BadValue(
            "DataLoader: with " + std::to_string(options.num_workers) +
            " workers, each needs its own dataset, because its `get` is not const, and this one "
            "cannot be copied. Make `get` const and thread-safe, or use one worker.");
  }

  /// Waits for the samples that workers are reading, at most for the timeout if there is one. After
  /// that another thread waits for the rest, so that a `get` that never returns does not hide the
  /// error of `timeout`.
  struct Destroy {
    void operator()(LoaderCore* core) const {
      if (core->workers_finish()) return delete core;
      if constexpr (owns_dataset) std::thread([core] { delete core; }).detach();
      else delete core;
    }
  };

  const DataLoaderOptions& options() const { return options_; }
  const SampleOrder& order() const { return fetcher_.order(); }
  Dataset& dataset() { return dataset_of(given_); }
  const Collate& collate() const { return fetcher_.collate_function(); }

  std::int64_t num_workers() const {
    if (workers_ && !workers_->is_inherited()) return static_cast<std::int64_t>(workers_->count());
    return options_.num_workers == automatic ? 1 : options_.num_workers;
  }
  std::string describe() const {
    const bool has_workers = workers_ && !workers_->is_inherited();
    return describe_loader(options_, order(), at_, num_workers(),
                           has_workers ? workers_->times() : WorkerTimes());
  }

  BatchPosition position() const { return at_; }
  void seek(BatchPosition at) {
    if (at.epoch < 0 || at.batch < 0 || at.batch > order().batches())
      throw BadValue("DataLoader: there is no " + text(at) +
                     ". Name one that exists: epochs count from 0, and each has " +
                     std::to_string(order().batches()) + " batches.");
    at_ = at;
    begin_loop();
  }

  /// Begins a new loop, which ends any other, and returns its number.
  std::uint64_t begin_loop() { return loop_ = ++last_loop_; }
  /// Returns the next batch of a loop; no value at the end of the epoch. Throws Error if another
  /// loop was begun or the position was set.
  std::optional<Batch> next(std::uint64_t loop) {
    if (loop != loop_)
      throw Error(
          "DataLoader: its position was changed while this loop ran, by a second loop, seek or a "
          "loaded state. Leave this loop first, or make a second loader.");
    if (at_.batch == order().batches()) {
      at_ = {at_.epoch + 1, 0};
      begin_loop();
      if (!options_.persistent_workers) end_workers();
      return std::nullopt;
    }
    std::optional<Batch> batch(read());
    ++at_.batch;
    return batch;
  }
  /// Calls `f` for all batches of the present epoch. Afterwards the position is what it was, and a
  /// loop that is running goes on.
  template <class F>
  void visit(F&& f) {
    struct Restore {
      LoaderCore& core;
      BatchPosition at = core.at_;
      std::uint64_t loop = core.loop_;
      ~Restore() { core.at_ = at, core.loop_ = loop; }
    } restore{*this};
    at_.batch = 0;
    const std::uint64_t loop = begin_loop();
    for (auto batch = next(loop); batch; batch.reset(), batch = next(loop)) f(*batch);
  }

 private:
  // False for a raw pointer, which does not keep the dataset alive, so that the loader waits for
  // threads that read it.
  static constexpr bool owns_dataset = !std::is_pointer_v<Given>;

  Batch read() {
    if (options_.num_workers == 0) return fetch(dataset(), at_, own_);
    if (!workers_) start_workers();
    return workers_->take(at_, options_.timeout, [this](BatchPosition reads, std::int64_t sample) {
      throw_late(reads, sample);
    });
  }
  Batch fetch(Dataset& dataset, BatchPosition at, Reading& reading) {
    Batch batch = fetcher_.batch(dataset, at, reading);
    if (pins_memory_) pin(batch);
    return batch;
  }
  void start_workers() {
    const WorkerCounts counts = worker_counts(options_.num_workers);
    const std::size_t workers = counts.first;
    if constexpr (!shared_by_workers<Dataset> && std::is_copy_constructible_v<Dataset>)
      for (std::size_t w = 1; w < workers; ++w)
        copies_.push_back(std::make_unique<Dataset>(dataset()));
    auto fetch_by = [this](std::size_t worker, BatchPosition at, Reading& reading) {
      const bool has_copy = worker > 0 && !copies_.empty();
      return this->fetch(has_copy ? *copies_[worker - 1] : dataset(), at, reading);
    };
    workers_.reset(new Workers<Batch>(counts, static_cast<std::size_t>(options_.prefetch_factor),
                                      order().batches(), options_.persistent_workers, fetch_by));
  }

  /// Ends the workers. If one is still reading a sample after the timeout, they stay.
  void end_workers() {
    if (!workers_ || workers_->is_inherited() || !workers_->finish(options_.timeout)) return;
    workers_.reset();
    copies_.clear();
  }
  /// Waits for at most the timeout. Returns whether no worker is reading a sample.
  bool workers_finish() const {
    if (!workers_ || workers_->is_inherited() || options_.timeout == 0) return true;
    if (workers_->finish(options_.timeout)) return true;
    if (!owns_dataset)
      TORCH_WARN(
          "DataLoader: it is destroyed while a worker reads a sample of a dataset that was given "
          "as a pointer, and waits until that has returned. Give it the dataset itself, or a "
          "std::shared_ptr, and it waits no longer than its timeout.");
    return false;
  }
  /// Throws BadSample. `reads` is the batch that a worker is reading, and `sample` the index, if
  /// there is one.
  [[noreturn]] void throw_late(BatchPosition reads, std::int64_t sample) const {
    std::string what = "no worker has begun it";
    if (reads.batch >= 0)
      what = (sample != Reading::none ? "get(" + std::to_string(sample) + ")"
                                      : "reading the samples " + fetcher_.some_indices(reads)) +
             (reads == at_ ? "" : ", of " + text(reads) + ", keeps a worker and") +
             " has not returned";
    throw BadSample(
        "DataLoader: within the timeout of " + seconds_text(options_.timeout) +
        " s no worker made the batch of " + text(at_) + ": " + what +
        ". The loader is still before this batch: a new loop tries it again, and seek({" +
        std::to_string(at_.epoch) + ", " + std::to_string(at_.batch + 1) +
        "}) skips it. A thread cannot be ended from outside: a worker whose sample never "
        "returns reads nothing more.");
  }

  DataLoaderOptions options_;
  Given given_;
  bool pins_memory_;
  BatchFetcher<Collate> fetcher_;
  BatchPosition at_;
  Reading own_;                                   // what the loop's own thread reads
  std::uint64_t loop_ = 0, last_loop_ = 0;        // the loop that may take batches; the newest loop
  std::vector<std::unique_ptr<Dataset>> copies_;  // for all workers but the first
  // Declared last, so that its threads end first.
  std::unique_ptr<Workers<Batch>, typename Workers<Batch>::Destroy> workers_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/data/impl/loader_core.ipp>
#endif
