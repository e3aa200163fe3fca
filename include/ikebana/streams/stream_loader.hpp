#pragma once
// Defines the loader of streams, whose length is not known.
#include <ikebana/data/batch_fetcher.hpp>
#include <ikebana/data/loader_core.hpp>
#include <ikebana/data/loop_iterator.hpp>
#include <ikebana/state/state_parts.hpp>
#include <ikebana/streams/stream_reader.hpp>
#include <iterator>

namespace ikebana {

/// The transform of a StreamLoader that leaves items as they are.
struct Unchanged {
  /// Returns the item.
  template <class Item>
  Item operator()(Item item) const {
    return item;
  }
};

namespace detail {

/// Makes a sample of an item. `key` determines its random numbers.
template <class Transform, class Item>
auto transformed(const Transform& transform, Item&& item, std::uint64_t key) {
  SampleRng rng(key);
  if constexpr (std::is_invocable_v<const Transform&, Item&&, SampleRng&>)
    return transform(std::forward<Item>(item), rng);
  else return transform(std::forward<Item>(item));
}

/// The implementation of a StreamLoader, whose address does not change.
template <class Source, class Transform, class Collate>
class StreamCore {
  using Reader = StreamReader<Source>;
  using Item = typename Reader::Item;
  using Sample =
      present_t<decltype(transformed(std::declval<const Transform&>(), std::declval<Item>(), 0))>;

 public:
  using Batch = decltype(call_collate(std::declval<const Collate&>(),
                                      std::declval<std::vector<Sample>>(), at::Tensor()));
  using Next = std::optional<Batch>;  // no value at the end of the epoch

  StreamCore(Source source, const StreamOptions& options, Transform transform, Collate collate)
      : options_((check(options), options)),
        pins_memory_(pins_memory(options.pin_memory)),
        reader_(std::move(source), options),
        transform_(std::move(transform)),
        collate_(std::move(collate)) {}

  const StreamOptions& options() const { return options_; }
  BatchPosition position() const { return at_; }
  void seek(BatchPosition at) {
    if (at.epoch < 0 || at.batch < 0)
      throw BadValue("StreamLoader: there is no " + text(at) +
                     ". Count epochs and batches from 0.");
    at_ = at;
    begin_loop();
  }
  std::uint64_t begin_loop() { return loop_ = ++last_loop_; }
  Next next(std::uint64_t loop) {
    if (loop != loop_)
      throw Error(
          "StreamLoader: its position was changed while this loop ran, by a second loop, seek or "
          "a loaded state. Leave this loop first, or make a second loader.");
    if (at_ != expected_) workers_.reset(), reader_.restart(at_);
    expected_ = {-1, -1};  // until the batch is here
    Next batch = read();
    at_ = batch ? BatchPosition{at_.epoch, at_.batch + 1} : BatchPosition{at_.epoch + 1, 0};
    if (batch) expected_ = at_;
    else begin_loop(), workers_.reset();
    return batch;
  }
  template <class F>
  void visit(F&& f) {
    struct Restore {
      StreamCore& core;
      BatchPosition at = core.at_;
      std::uint64_t loop = core.loop_;
      ~Restore() { core.at_ = at, core.loop_ = loop, core.expected_ = {-1, -1}; }
    } restore{*this};
    at_.batch = 0;
    const std::uint64_t loop = begin_loop();
    for (auto batch = next(loop); batch; batch.reset(), batch = next(loop)) f(*batch);
  }

 private:
  Next read() {
    if (options_.num_workers == 0) return make(at_, own_);
    if (!workers_) start_workers();
    return workers_->take(at_, 0, [](BatchPosition, std::int64_t) {});
  }
  void start_workers() {
    constexpr std::int64_t unknown = std::int64_t{1} << 40;  // more batches than any epoch has
    const auto workers = static_cast<std::size_t>(options_.num_workers);
    workers_.reset(new Workers<Next>(
        {workers, workers}, static_cast<std::size_t>(options_.prefetch_factor), unknown, false,
        [this](std::size_t, BatchPosition at, Reading& reading) { return make(at, reading); }));
  }
  Next make(BatchPosition at, Reading& reading) {
    const PlainMode plain;
    const bridge::OneThread one_thread;  // so that sums have the same bits in every thread
    auto part = read_part(at, reading);
    if (part.of_all_ranks == 0) return std::nullopt;
    std::vector<Sample> samples;
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < part.items.size(); ++i) {
      const std::int64_t number = part.first + static_cast<std::int64_t>(i);
      const std::size_t before = samples.size();
      try {
        add_present(samples, transformed(transform_, std::move(part.items[i]),
                                         key(options_.seed, at.epoch, RngStream::Sample, number)));
      } catch (...) {
        throw_bad_sample("the transform of item " + std::to_string(number), at);
      }
      if (samples.size() > before) numbers.push_back(number);
    }
    if (samples.empty()) throw_none_present("items from " + std::to_string(part.first), at);
    Next batch(call_collate(collate_, std::move(samples), at::tensor(numbers, at::kLong)));
    if (part.is_placeholder)
      remove_rows(*batch, "StreamLoader: this rank has no item of " + text(at) +
                              ", and no batch without rows can be made of another's: ");
    if (pins_memory_) pin(*batch);
    return batch;
  }
  auto read_part(BatchPosition at, Reading& reading) {
    try {
      return reader_.read(at, reading.stop);
    } catch (...) {
      throw_bad_sample("the stream", at);
    }
  }

  StreamOptions options_;
  bool pins_memory_;
  Reader reader_;
  Transform transform_;
  Collate collate_;
  BatchPosition at_, expected_{-1, -1};     // expected_: the part that the reader reads next
  Reading own_;                             // what the loop's own thread reads
  std::uint64_t loop_ = 0, last_loop_ = 0;  // the loop that may take batches; the newest loop
  // Declared last, so that its threads end first.
  std::unique_ptr<Workers<Next>, typename Workers<Next>::Destroy> workers_;
};

}  // namespace detail

/// Gives the batches of a stream, whose length is not known: of a C++20 range, a generator, lines
/// of a file, messages of a socket. PyTorch's IterableDataset with DataLoader, but ranks and
/// workers do not repeat items.
///
///     auto lines = [](std::int64_t epoch) { return Lines("text.txt"); };  // any input range
///     StreamLoader loader{lines, {.batch_size = 32, .shuffle_buffer = 1000}, tokenize};
///     for (auto& batch : loader) trainer.step(batch);
///
/// `source(epoch)` or `source()` returns the range of an epoch, which must be the same each time.
/// One thread at a time reads it. `transform(item)` or `transform(item, SampleRng&)` makes a sample
/// of an item, in `num_workers` threads at once; an empty std::optional leaves the item out. The
/// order, the random numbers and the batches do not depend on the number of workers. Several ranks
/// read the same stream, and each has its part of each batch, as with a DataLoader.
///
/// Its position is exact, but a stream has no index: resuming reads the items before it again,
/// without transforming them. Costs the memory of shuffle_buffer items, and of num_workers *
/// prefetch_factor batches. Errors: BadValue for options out of range, BadSample with the message
/// of what the stream or the transform threw, BadBatch if samples do not stack.
template <class Source, class Transform = Unchanged, class Collate = DefaultCollate>
class StreamLoader {
  static_assert(detail::StreamSource<Source>,
                "StreamLoader: the source must be callable, without arguments or with the epoch, "
                "and return a range. Write StreamLoader{[] { return range; }}.");
  using Core = detail::StreamCore<Source, Transform, Collate>;

 public:
  /// The type of a batch, which the collate function returns.
  using Batch = typename Core::Batch;
  /// The section of its position in a saved state.
  static constexpr const char* state_name = "loader";

  /// Throws BadValue for options out of range.
  explicit StreamLoader(Source source, const StreamOptions& options = {}, Transform transform = {},
                        Collate collate = {})
      : core_(new Core(std::move(source), options, std::move(transform), std::move(collate))) {}

  /// Returns the options that it was made with.
  const StreamOptions& options() const { return core_->options(); }
  /// Returns the epoch of the next batch, from 0.
  std::int64_t epoch() const { return position().epoch; }
  /// Returns the position of the next batch.
  BatchPosition position() const { return core_->position(); }
  /// Sets the position at which the next loop begins. Leave a running loop after this call. Throws
  /// BadValue for negative numbers.
  void seek(BatchPosition at) { core_->seek(at); }

  /// The iterator of a range-based `for`. Holds the batch.
  using Iterator = detail::LoopIterator<Core>;

  /// Loops from the present position to the end of the epoch; the position is then the beginning of
  /// the next one. After a loop that was left early, the next loop continues with the next batch.
  Iterator begin() { return Iterator(*core_); }
  /// Returns the end of any loop.
  std::default_sentinel_t end() const { return std::default_sentinel; }
  /// Calls `f(batch)` for each batch of the present epoch, from its first one on. The position is
  /// then what it was.
  template <class F>
  void visit(F&& f) {
    core_->visit(f);
  }
  /// Returns true: an epoch may differ from another.
  bool varies() const { return true; }

  /// Saves and loads the position. Checks the values on which it depends: batch_size,
  /// shuffle_buffer, seed and drop_last. The numbers of workers and of ranks may differ.
  void state(Archive& archive) {
    BatchPosition at = position();
    archive.number("epoch", at.epoch, &count_range);
    archive.number("batch", at.batch, &count_range);
    archive.constant("batch_size", options().batch_size);
    archive.constant("shuffle_buffer", options().shuffle_buffer);
    archive.constant("seed", options().seed);
    archive.constant("drop_last", options().drop_last);
    if (archive.loading()) seek(at);
  }

 private:
  std::unique_ptr<Core> core_;
};

template <class Source>
StreamLoader(Source) -> StreamLoader<Source>;
template <class Source>
StreamLoader(Source, StreamOptions) -> StreamLoader<Source>;
template <class Source, class Transform>
StreamLoader(Source, StreamOptions, Transform) -> StreamLoader<Source, Transform>;
template <class Source, class Transform, class Collate>
StreamLoader(Source, StreamOptions, Transform, Collate) -> StreamLoader<Source, Transform, Collate>;

}  // namespace ikebana
