#pragma once
// Defines memory blocks, streams, events and captures of the simulated accelerator. Every stream
// has a clock of its own and knows how far it has waited for the others, so that accesses without
// order are found whatever the timing (vector clocks, as in ThreadSanitizer).
#include "simulated.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Stream.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace simulated {

/// As in LibTorch's CUDA streams: the default one, and a pool that is handed out round-robin.
inline constexpr std::size_t streams_per_device = 33;
inline constexpr std::size_t all_streams = devices * streams_per_device;
inline constexpr int host_memory = -1;

/// Index of a stream among all streams.
using StreamIndex = std::size_t;
StreamIndex index_of(const c10::Stream& stream);
c10::Stream stream_of(StreamIndex index);

/// Records, by stream, how far its work is known to be done.
using Clock = std::array<std::uint64_t, all_streams>;

struct Access {
  StreamIndex stream = 0;
  std::uint64_t time = 0;
  const char* what = "";
};

/// A block of device or pinned memory. Tensors on the device hold `address`, which the host cannot
/// read; the bytes are at `memory`.
struct Block {
  Block(char* at, std::size_t asked, int on, StreamIndex by);
  /// A pool of graphs, whose memory begins without pages.
  Block(char* at, std::size_t most, int on);
  ~Block();
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  bool on_host() const { return device == host_memory; }
  std::string place() const;

  char* memory;
  char* address;
  std::size_t size, requested;
  int device;
  StreamIndex allocated_on;
  std::set<StreamIndex> recorded;  ///< the streams, by record_stream
  Access write;                    ///< the last one
  std::map<StreamIndex, Access> reads;
  int queued = 0;  ///< copies not yet done
  bool freed = false;
  const bool is_pool;
};
using BlockPtr = std::shared_ptr<Block>;

/// The memory of graphs. All of it is one block, whose parts are given to tensors of captures, and
/// given again once they are freed.
class Pool {
 public:
  explicit Pool(BlockPtr block) : block_(std::move(block)) {}
  char* allocate(std::size_t bytes);
  /// Returns the bytes that are free now.
  std::size_t free(const char* address);
  const BlockPtr& block() const { return block_; }
  /// Returns the bytes in use, and how many were used at most.
  std::size_t used() const { return used_; }
  std::size_t most() const { return most_; }

 private:
  BlockPtr block_;
  std::map<std::size_t, std::size_t> parts_;  // the sizes of parts in use, by their place
  std::size_t used_ = 0, most_ = 0;
};

/// All blocks. Addresses on the device are never used twice, so a freed one is recognised.
class Memory {
 public:
  Memory();
  /// Allocates bytes of device memory, on the current stream.
  c10::DataPtr allocate(std::size_t bytes, c10::Device device);
  c10::DataPtr allocate_pinned(std::size_t bytes);
  /// Makes a pool of graphs. Its memory is released when the process ends.
  std::shared_ptr<Pool> make_pool(int device);
  void free(void* address);
  /// Returns the block that `address` is in, also if it was freed lately; null if there is no such
  /// block.
  BlockPtr find(const void* address) const;
  /// The bytes of `address`; throws c10::Error if it is not in a block.
  char* bytes(const void* address) const;
  void copy_done(const BlockPtr& block);
  void record_stream(const void* address, StreamIndex stream);
  c10::CachingDeviceAllocator::DeviceStats& stats(int device) {
    return stats_.at(static_cast<std::size_t>(device));
  }
  std::size_t limit = 0;

 private:
  char* next_addresses(std::size_t size);
  BlockPtr add(std::size_t bytes, int device);
  void check_limit(std::size_t size, int device);
  void check_uses(const Block& block) const;
  void release(const BlockPtr& block);

  char* next_;  ///< the device address of the next block
  char* end_;
  std::map<const char*, BlockPtr> blocks_;  ///< the blocks, by address
  std::map<const Block*, std::shared_ptr<Pool>> pools_;
  std::deque<BlockPtr> freed_;  ///< the last ones
  std::size_t freed_bytes_ = 0;
  std::array<c10::CachingDeviceAllocator::DeviceStats, devices> stats_;
};

/// One recording of an event.
struct Recorded {
  StreamIndex stream;
  Clock clock;
  int false_queries;
  bool reached = false;
  bool captured = false;  ///< in a capture, which computes nothing
  /// Operators compute at once, so the time of the call is the device's.
  std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now();
};
using RecordedPtr = std::shared_ptr<Recorded>;

/// A task of a stream: one of the three.
struct Work {
  std::function<void()> copy;
  RecordedPtr reach, await;
};

class Streams {
 public:
  /// A stream's next operation: it knows what the host knows.
  std::uint64_t launch(StreamIndex stream);
  void enqueue(StreamIndex stream, Work work) { queues_.at(stream).push_back(std::move(work)); }
  void drain(StreamIndex stream);
  bool idle(StreamIndex stream) const { return queues_.at(stream).empty(); }

  RecordedPtr record(StreamIndex stream);
  void await(StreamIndex stream, const RecordedPtr& event);
  void reach(const RecordedPtr& event);
  /// The first answers are "not yet".
  bool query(const RecordedPtr& event);
  bool query(StreamIndex stream);
  /// The host waits.
  void wait(StreamIndex stream);
  void wait(const RecordedPtr& event);
  void wait_device(int device);
  /// Both streams wait for each other.
  void join(StreamIndex a, StreamIndex b);

  void read(Block& block, StreamIndex stream, const char* what);
  void write(Block& block, StreamIndex stream, const char* what);
  /// Returns whether the next operation of `later` comes after `access`.
  bool ordered(const Access& access, StreamIndex later) const;

  std::size_t copies() const;
  int false_queries = 1;

 private:
  void do_next(StreamIndex stream);
  std::array<std::deque<Work>, all_streams> queues_;
  std::array<Clock, all_streams> seen_ = {};
  Clock host_ = {};
};

/// Holds the work that a stream was given while it was captured. Operators were computed, because
/// their kernels alone know the shapes of results; `undo` takes that back, as CUDA computes nothing
/// meanwhile.
class Captured {
 public:
  Captured(StreamIndex stream, std::shared_ptr<Pool> pool);
  /// Notes what an operation reads, and keeps the bytes that it writes.
  void note(const BlockPtr& block, bool writes);
  void add(std::function<void()> work) { work_.push_back(std::move(work)); }
  void undo();
  /// Computes all of it on a stream.
  void replay(StreamIndex stream) const;

  const StreamIndex stream;
  const std::shared_ptr<Pool> pool;
  bool failed = false;  ///< something was refused, which ends the capture with an error

 private:
  struct Outside {
    BlockPtr block;
    bool is_written;
    std::vector<char> before;
  };
  std::vector<std::function<void()>> work_;
  std::vector<Outside> outside_;
  std::vector<char> pool_before_;
  at::Tensor generator_before_;
};

/// Everything, guarded by one mutex.
struct State {
  std::recursive_mutex mutex;
  Memory memory;
  Streams streams;
  std::vector<std::string> errors;
  std::optional<std::vector<std::string>> launches;  ///< the launches of the `Launches` that exists
  std::atomic<std::int64_t> synchronisations = 0;
  std::atomic<int> sync_guards = 0;
  std::map<StreamIndex, std::shared_ptr<Captured>> captures;  ///< the ones that are open

  void error(std::string sentence);
  void note_launch(const char* what) {
    if (launches) launches->emplace_back(what);
  }
};
State& state();
using Lock = std::lock_guard<std::recursive_mutex>;

/// Throws under a SyncGuard.
void check_sync();

int current_device();
StreamIndex current_stream(int device);

/// Returns the open capture of a stream, or null.
Captured* capture_of(StreamIndex stream);
/// Throws if a stream is captured, because CUDA does not permit `what` then; the capture fails,
/// too.
void refuse_captured(StreamIndex stream, const char* what);
/// Does so for the current stream of this thread.
inline void refuse_in_capture(int device, const char* what) {
  refuse_captured(current_stream(device), what);
}

void register_memory();
void register_guard();
void register_hooks();
void register_operators();
void register_kernels();
void register_rnn();
void register_autocast();
void register_graphs();

}  // namespace simulated
