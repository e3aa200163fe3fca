#pragma once
// Reads the items of a stream in order, of which batches are made in several threads.
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ikebana/batch/position.hpp>
#include <ikebana/data/options.hpp>
#include <ikebana/data/sample_order.hpp>
#include <ikebana/data/workers.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <mutex>
#include <optional>
#include <ranges>
#include <type_traits>
#include <utility>
#include <vector>

namespace ikebana {

/// Options of a StreamLoader. The names are a DataLoader's.
struct StreamOptions {
  std::int64_t batch_size = 1;  ///< items per batch, of all ranks together
  /// Items that are held back, of which the next one is drawn at random; 0: the stream's order.
  std::int64_t shuffle_buffer = 0;
  std::int64_t num_workers = 0;      ///< threads that read ahead and transform; 0: the loop's own
  bool pin_memory = false;           ///< tensors in pinned memory, from which devices copy faster
  bool drop_last = false;            ///< skip a last batch of fewer items
  std::int64_t prefetch_factor = 2;  ///< batches that each worker makes ahead
  std::uint64_t seed = 0;            ///< the seed of the shuffle buffer and of SampleRng
  std::int64_t num_replicas = 1;     ///< number of ranks; each reads the whole stream
  std::int64_t rank = 0;             ///< index of this rank, which has its part of each batch
};

namespace detail {

/// Throws BadValue for options out of range.
void check(const StreamOptions& options);
[[noreturn]] void throw_stream_stopped();

/// A source of streams: a callable that takes the epoch, or nothing, and returns a range.
template <class Source>
auto open_stream(Source& source, [[maybe_unused]] std::int64_t epoch) {
  if constexpr (std::is_invocable_v<Source&, std::int64_t>) return source(epoch);
  else return source();
}
template <class Source>
using stream_t = decltype(open_stream(std::declval<Source&>(), 0));
template <class Source>
concept StreamSource =
    (std::is_invocable_v<Source&, std::int64_t> || std::is_invocable_v<Source&>) &&
    std::ranges::input_range<stream_t<Source>>;

/// The items of one epoch, from its first one on. Its address does not change, since iterators
/// refer to the range.
template <class Range>
class StreamItems {
 public:
  using Item = std::ranges::range_value_t<Range>;

  explicit StreamItems(Range range)
      : range_(std::move(range)), at_(std::ranges::begin(range_)), end_(std::ranges::end(range_)) {}
  StreamItems(const StreamItems&) = delete;
  StreamItems& operator=(const StreamItems&) = delete;

  /// Returns the next item; no value at the end.
  std::optional<Item> next() {
    // Moves on only when an item is asked for, so a source is not waited for earlier.
    if (std::exchange(has_begun_, true) && !is_at_end_) ++at_;
    is_at_end_ = is_at_end_ || at_ == end_;
    if (is_at_end_) return std::nullopt;
    return std::optional<Item>(*at_);
  }

 private:
  Range range_;
  std::ranges::iterator_t<Range> at_;
  std::ranges::sentinel_t<Range> end_;
  bool has_begun_ = false, is_at_end_ = false;
};

/// The items of which a batch is made.
template <class Item>
struct StreamPart {
  std::vector<Item> items;        ///< this rank's
  std::int64_t first = 0;         ///< the number of the first of them in its epoch
  std::int64_t of_all_ranks = 0;  ///< items of the batch; 0: the epoch has ended
  bool is_placeholder = false;    ///< the rank has none: `items` holds another's, for its shape
};

/// Reads the parts of batches, each once and in order, also if several threads ask for them. After
/// a restart it reads the epoch from its begin.
template <class Source>
class StreamReader {
 public:
  using Range = stream_t<Source>;
  using Item = typename StreamItems<Range>::Item;
  using Part = StreamPart<Item>;

  StreamReader(Source source, const StreamOptions& options)
      : source_(std::move(source)), options_(options) {}

  /// The next part that is asked for will be this one. No thread may be asking for one.
  void restart(BatchPosition at) {
    const std::lock_guard lock(mutex_);
    items_.reset();
    buffer_.clear();
    next_ = at;
    is_broken_ = false;
    turn_.notify_all();
  }
  /// Returns the part at a position, when all parts before it have been read. Throws Error soon
  /// after `stop` was set.
  Part read(BatchPosition at, const std::atomic<bool>& stop) {
    std::unique_lock lock(mutex_);
    // Threads are given positions in order, and no thread lives through a restart.
    while (!is_broken_ && !stop && at != next_) turn_.wait_for(lock, std::chrono::milliseconds(20));
    if (is_broken_ || at != next_) throw_stream_stopped();
    try {
      if (!items_) open(at);
      Part part = read_part(at);
      next_ = {at.epoch, at.batch + 1};
      turn_.notify_all();
      return part;
    } catch (...) {
      is_broken_ = true;
      turn_.notify_all();
      throw;
    }
  }

 private:
  void open(BatchPosition at) {
    buffer_.clear();
    drawn_ = 0;
    items_.emplace(open_stream(source_, at.epoch));
    epoch_ = at.epoch;
    for (std::int64_t i = 0; i < at.batch * options_.batch_size; ++i)
      if (!next_item()) return;
  }
  std::optional<Item> next_item() {
    if (options_.shuffle_buffer < 2) return ++drawn_, items_->next();
    const auto size = static_cast<std::size_t>(options_.shuffle_buffer);
    while (buffer_.size() < size) {
      auto item = items_->next();
      if (!item) break;
      buffer_.push_back(*std::move(item));
    }
    if (buffer_.empty()) return std::nullopt;
    const std::uint64_t random = key(options_.seed, epoch_, drawn_++, std::uint64_t{0x60});
    std::swap(buffer_[random % buffer_.size()], buffer_.back());
    std::optional<Item> item(std::move(buffer_.back()));
    buffer_.pop_back();
    return item;
  }
  Part read_part(BatchPosition at) {
    std::vector<Item> all;
    while (std::ssize(all) < options_.batch_size) {
      auto item = next_item();
      if (!item) break;
      all.push_back(*std::move(item));
    }
    const std::int64_t n = std::ssize(all);
    if (n == 0 || (options_.drop_last && n < options_.batch_size)) return {};
    const RowRange part = rows_read_by(options_.rank, options_.num_replicas, n);
    const std::int64_t first = at.batch * options_.batch_size;
    if (part.count == 0) {
      all.erase(all.begin() + 1, all.end());
      return {std::move(all), first, n, true};
    }
    const auto begin = std::move_iterator(all.begin() + part.first);
    return {std::vector<Item>(begin, begin + part.count), first + part.first, n, false};
  }

  Source source_;
  StreamOptions options_;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::optional<StreamItems<Range>> items_;
  std::vector<Item> buffer_;
  std::int64_t epoch_ = 0, drawn_ = 0;
  BatchPosition next_;      // the part that is read next
  bool is_broken_ = false;  // the source threw: parts after it do not exist until a restart
};

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/streams/impl/stream_reader.ipp>
#endif
