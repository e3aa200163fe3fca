#pragma once
// Records a history of the memory that LibTorch allocates on the CPU.
#include <ikebana/bridge/counting_allocator.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/memory/record.hpp>
#include <map>
#include <string_view>
#include <unordered_map>

namespace ikebana::detail {

/// Numbers for values, from 0 in the order in which they came.
template <class Value>
class Interned {
 public:
  std::uint32_t number(const Value& value) {
    const auto [at, is_new] =
        numbers_.try_emplace(value, static_cast<std::uint32_t>(values_.size()));
    if (is_new) values_.push_back(&at->first);
    return at->second;
  }
  const Value& operator[](std::uint32_t number) const { return *values_[number]; }
  std::size_t size() const { return values_.size(); }

 private:
  std::map<Value, std::uint32_t> numbers_;
  std::vector<const Value*> values_;  // a map does not move its keys
};

/// Returns the place of the present thread as one text: the phase, the unit and the labels, each
/// followed by a character that no name has.
std::string present_place();
MemoryWhere where_of(const std::string& place);
std::vector<std::string> names_of(const std::vector<void*>& stack);

/// Returns the kind of an allocation, from the phase in which it was made and the phase in which it
/// was freed. The latter is null if the memory is in use.
const char* kind_of(std::string_view phase, const char* freed_in);

}  // namespace ikebana::detail

namespace ikebana {

/// The options of a MemoryHistory.
struct MemoryHistoryOptions {
  /// The number of allocations and frees that are kept, the last ones. 0: only what is in use is
  /// kept.
  std::size_t max_events = 1 << 17;
  /// Records also the functions that called, which costs some microseconds more per allocation. A
  /// program's own functions have names if it is linked with -rdynamic.
  bool stack_traces = false;
};

/// RAII: while it exists, it receives each allocation and free of LibTorch on the CPU, of all
/// threads, and records its time and place: in which phase and unit of a step under
/// Observe<Memory>, with `by_phase` or `by_unit`, and in which MemoryScopes. Costs about 0.3
/// microseconds and 64 bytes for each, under a lock; nothing once the history has ended. Memory
/// that was allocated before has no place. Several histories may exist. An accelerator's memory is
/// not recorded: LibTorch has a history of its own there, whose snapshots have the same format
/// (docs/memory.md).
class MemoryHistory : bridge::AllocationObserverV2 {
 public:
  /// Begins to record.
  explicit MemoryHistory(MemoryHistoryOptions options = {});
  ~MemoryHistory() override { allocator_.remove(*this); }

  /// Copies everything. The latest allocations of threads that allocate meanwhile may be missing.
  MemoryRecord record();
  /// Forgets the events, but not what is in use.
  void clear();

 private:
  using Action = MemoryEvent::Action;
  /// An allocation that is in use, as it is kept until the program asks. Texts are stored in
  /// tables, each once.
  struct Block {
    std::int64_t bytes;
    std::uint64_t number;
    std::uint32_t place, stack;
    std::uint32_t kind = none, unit = none;  // the kind and the unit as they were described
  };
  struct Event {
    Action action;
    std::uint64_t address, number;
    std::int64_t bytes, time_us;
    std::uint32_t place, stack;
    std::uint32_t kind = none, unit = none;  // for a free: the kind and unit of the freed memory
    std::int64_t left = 0;                   // the bytes that were left for an allocation that did
                                             // not fit
  };
  class Reader;

  IKEBANA_INLINE void allocated(const void* data, int64_t bytes, int64_t) noexcept override;
  IKEBANA_INLINE void freed(const void* data, int64_t bytes) noexcept override;
  IKEBANA_INLINE void refused(int64_t bytes, int64_t limit) noexcept override;
  IKEBANA_INLINE void described(const void* data, const char* kind,
                                const char* unit) noexcept override;

  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  /// Calls `f` under the lock. Drops the event if there is no memory for it, because nothing may
  /// throw here.
  template <class F>
  void heard(const F& f) noexcept {
    try {
      const std::lock_guard lock(mutex_);
      f();
    } catch (const std::bad_alloc&) {
      ++dropped_;
    }
  }
  std::uint32_t place() { return places_.number(detail::present_place()); }
  std::uint32_t stack();
  static std::uint64_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }
  static std::int64_t now();
  void add(const Event& event);
  /// `freed_in` is a phase, or null if the block is in use.
  std::uint32_t kind_of(const Block& block, const char* freed_in);
  std::uint32_t unit_of(const Block& block);

  MemoryHistoryOptions options_;
  bridge::CountingAllocatorV2& allocator_;
  std::mutex mutex_;
  std::unordered_map<const void*, Block> blocks_;
  std::vector<Event> events_;  // a ring once it is full
  std::size_t next_ = 0;
  std::uint64_t number_ = 0, dropped_ = 0;
  detail::Interned<std::string> places_, names_;  // `names_` holds kinds and units
  detail::Interned<std::vector<void*>> stacks_;
};

/// Copies a history, and replaces numbers by the texts of its tables.
class MemoryHistory::Reader {
 public:
  explicit Reader(MemoryHistory& history) : h_(history), lock_(history.mutex_) {}

  MemoryRecord record();

 private:
  struct Described {
    std::uint32_t kind, unit;
  };
  void read_blocks();
  void read_freed();
  void read_event(const Event& event);
  std::shared_ptr<const MemoryWhere> where(std::uint32_t place, std::uint32_t stack);

  MemoryHistory& h_;
  std::unique_lock<std::mutex> lock_;
  MemoryRecord record_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::shared_ptr<const MemoryWhere>> where_;
  std::vector<std::pair<std::shared_ptr<MemoryWhere>, std::vector<void*>>> unnamed_;
  std::unordered_map<std::uint64_t, Described> described_;  // the description of each allocation,
                                                            // by its number
};

inline MemoryRecord MemoryHistory::record() { return Reader(*this).record(); }

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/history.ipp>
#endif
