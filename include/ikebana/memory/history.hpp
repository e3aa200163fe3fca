#pragma once
// A history of the memory that LibTorch allocates on the CPU.
#include <chrono>
#include <ikebana/bridge/memory.hpp>
#include <ikebana/memory/interned.hpp>
#include <unordered_map>

namespace ikebana {

/// The options of a MemoryHistory.
struct MemoryHistoryOptions {
  /// How many allocations and frees are kept: the last ones. 0: none, only what is in use.
  std::size_t max_events = 1 << 17;
  /// Also which functions called: some microseconds more per allocation. A program's own functions
  /// have names where it is linked with -rdynamic.
  bool stack_traces = false;
};

/// RAII: while it exists, it hears each allocation and free of LibTorch's on the CPU, of all
/// threads, and records when and where it was: in which phase and unit of a step under
/// Observe<Memory>, with `by_phase` or `by_unit`, and in which MemoryScopes. About 0.3 microseconds
/// and 64 bytes for each, under a lock; the rest of the program pays nothing once it has ended.
/// Memory that was there before has no place. Several may exist. Of an accelerator's memory nothing
/// is recorded; LibTorch has a history of its own there, whose snapshots have the same format
/// (docs/memory.md).
class MemoryHistory : bridge::AllocationObserverV2 {
 public:
  /// Begins to record.
  explicit MemoryHistory(MemoryHistoryOptions options = {})
      : options_(options), allocator_(bridge::CountingAllocatorV2::install()) {
    if (options_.stack_traces) (void)detail::stack_trace();  // loads what unwinds
    allocator_.add(*this);
  }
  ~MemoryHistory() override { allocator_.remove(*this); }

  /// Copies everything. Of threads that allocate meanwhile, some of what they do may be missing.
  MemoryRecord record();
  /// Forgets the events. What is in use stays known.
  void clear() {
    const std::lock_guard lock(mutex_);
    events_.clear(), next_ = 0, dropped_ = 0;
  }

 private:
  using Action = MemoryEvent::Action;
  /// What is kept until the program asks: texts stand in tables, each once.
  struct Block {
    std::int64_t bytes;
    std::uint64_t number;
    std::uint32_t place, stack;
    std::uint32_t kind = none, unit = none;  // of what was described
  };
  struct Event {
    Action action;
    std::uint64_t address, number;
    std::int64_t bytes, time_us;
    std::uint32_t place, stack;
    std::uint32_t kind = none, unit = none;  // of a free: of what was freed
    std::int64_t left = 0;                   // of one that did not fit
  };
  class Reader;

  void allocated(const void* data, int64_t bytes, int64_t) noexcept override {
    heard([&] {
      const Block block{bytes, ++number_, place(), stack()};
      blocks_.insert_or_assign(data, block);
      add({Action::Alloc, address(data), block.number, bytes, now(), block.place, block.stack});
    });
  }
  void freed(const void* data, int64_t bytes) noexcept override {
    heard([&] {
      Event event{Action::Free, address(data), 0, bytes, now(), place(), none};
      if (const auto at = blocks_.find(data); at != blocks_.end()) {
        const Block block = at->second;
        blocks_.erase(at);
        event.number = block.number, event.unit = unit_of(block);
        event.kind = kind_of(block, detail::where_of(places_[event.place]).phase.c_str());
      }
      add(event);
    });
  }
  void refused(int64_t bytes, int64_t limit) noexcept override {
    const bool is_limited = limit != bridge::CountingAllocatorV2::no_limit;
    const std::int64_t left = is_limited ? std::max<std::int64_t>(0, limit - allocator_.now()) : 0;
    heard([&] {
      Event event{Action::OutOfMemory, 0, 0, bytes, now(), place(), stack()};
      event.left = left, add(event);
    });
  }
  void described(const void* data, const char* kind, const char* unit) noexcept override {
    heard([&] {
      const auto at = blocks_.find(data);
      if (at == blocks_.end() || at->second.kind != none) return;
      at->second.kind = names_.number(kind), at->second.unit = names_.number(unit);
    });
  }

  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
  /// An event for which there is no memory is dropped: nothing may throw here.
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
  std::uint32_t stack() {
    return options_.stack_traces ? stacks_.number(detail::stack_trace()) : none;
  }
  static std::uint64_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }
  static std::int64_t now() {
    using namespace std::chrono;
    return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
  }
  void add(const Event& event) {
    if (events_.size() < options_.max_events) return events_.push_back(event);
    ++dropped_;
    if (options_.max_events == 0) return;
    events_[next_] = event;
    next_ = (next_ + 1) % options_.max_events;
  }
  /// `freed_in` is a phase, or null of what is in use.
  std::uint32_t kind_of(const Block& block, const char* freed_in) {
    if (block.kind != none) return block.kind;
    return names_.number(detail::kind_of(detail::where_of(places_[block.place]).phase, freed_in));
  }
  std::uint32_t unit_of(const Block& block) {
    if (block.unit != none) return block.unit;
    return names_.number(detail::where_of(places_[block.place]).unit);
  }

  MemoryHistoryOptions options_;
  bridge::CountingAllocatorV2& allocator_;
  std::mutex mutex_;
  std::unordered_map<const void*, Block> blocks_;
  std::vector<Event> events_;  // a ring once it is full
  std::size_t next_ = 0;
  std::uint64_t number_ = 0, dropped_ = 0;
  detail::Interned<std::string> places_, names_;  // names: kinds and units
  detail::Interned<std::vector<void*>> stacks_;
};

/// Copies a history, with the texts of its tables.
class MemoryHistory::Reader {
 public:
  explicit Reader(MemoryHistory& history) : h_(history), lock_(history.mutex_) {}

  MemoryRecord record() {
    read_blocks();
    read_freed();
    for (std::size_t i = 0; i < h_.events_.size(); ++i)
      read_event(h_.events_[(h_.next_ + i) % h_.events_.size()]);
    record_.dropped = h_.dropped_;
    lock_.unlock();  // names are asked of the system's loader, which has locks of its own
    for (auto& [where, stack] : unnamed_) where->stack = detail::names_of(stack);
    return std::move(record_);
  }

 private:
  struct Described {
    std::uint32_t kind, unit;
  };
  void read_blocks() {
    std::int64_t known = 0;
    for (const auto& [data, block] : h_.blocks_) {
      const Described& of =
          described_[block.number] = {h_.kind_of(block, nullptr), h_.unit_of(block)};
      record_.blocks.push_back({address(data), block.bytes, block.number, h_.names_[of.kind],
                                h_.names_[of.unit], where(block.place, block.stack)});
      known += block.bytes;
    }
    std::sort(record_.blocks.begin(), record_.blocks.end(),
              [](const auto& a, const auto& b) { return a.address < b.address; });
    record_.in_use = h_.allocator_.now();
    record_.before = std::max<std::int64_t>(0, record_.in_use - known);
  }
  void read_freed() {
    for (const Event& event : h_.events_)
      if (event.action == Action::Free && event.number != 0)
        described_[event.number] = {event.kind, event.unit};
  }
  void read_event(const Event& event) {
    const auto of = described_.find(event.number);
    const bool is_known = of != described_.end();
    record_.events.push_back({event.action, event.address, event.bytes, event.time_us, event.left,
                              is_known ? h_.names_[of->second.kind] : "other",
                              is_known ? h_.names_[of->second.unit] : "", event.number,
                              where(event.place, event.stack)});
  }
  std::shared_ptr<const MemoryWhere> where(std::uint32_t place, std::uint32_t stack) {
    auto& known = where_[{place, stack}];
    if (known) return known;
    const auto made = std::make_shared<MemoryWhere>(detail::where_of(h_.places_[place]));
    if (stack != none) unnamed_.emplace_back(made, h_.stacks_[stack]);
    return known = made;
  }

  MemoryHistory& h_;
  std::unique_lock<std::mutex> lock_;
  MemoryRecord record_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::shared_ptr<const MemoryWhere>> where_;
  std::vector<std::pair<std::shared_ptr<MemoryWhere>, std::vector<void*>>> unnamed_;
  std::unordered_map<std::uint64_t, Described> described_;  // of each allocation, by its number
};

inline MemoryRecord MemoryHistory::record() { return Reader(*this).record(); }

}  // namespace ikebana
