#pragma once
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/memory_place.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/memory/history.hpp>
#include <ikebana/posix/stack_trace.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::string present_place() {
  std::string text;
  auto add = [&](std::string_view part) { text.append(part).append(1, '\0'); };
  const auto place = bridge::place_source ? bridge::place_source->place() : bridge::MemoryPlace();
  add(place.phase), add(place.unit);
  for (const auto* label = bridge::MemoryLabel::innermost(); label; label = label->outer())
    if (!label->text().empty()) add(label->text());
  return text;
}

IKEBANA_INLINE MemoryWhere where_of(const std::string& place) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < place.size(); at = place.find('\0', at) + 1)
    parts.push_back(place.substr(at, place.find('\0', at) - at));
  return {parts[0], parts[1], {parts.begin() + 2, parts.end()}, {}};
}

IKEBANA_INLINE std::vector<std::string> names_of(const std::vector<void*>& stack) {
  std::vector<std::string> names;
  for (const void* address : without_own_frames(stack)) {
    const StackFrame frame = frame_at(address);
    names.push_back(frame.name + " (" + frame.file + ")");
  }
  return names;
}

IKEBANA_INLINE const char* kind_of(std::string_view phase, const char* freed_in) {
  if (phase.empty()) return "other";
  if (freed_in != nullptr && freed_in == phase) return "temporary";
  if (phase == "data") return "batch";
  if (phase == "forward") return "activation";
  return phase == "backward" ? "gradient" : "optimizer state";
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE MemoryHistory::MemoryHistory(MemoryHistoryOptions options)
    : options_(options), allocator_(bridge::CountingAllocatorV2::install()) {
  if (options_.stack_traces) (void)detail::stack_trace();  // loads the library that unwinds stacks
  allocator_.add(*this);
}

IKEBANA_INLINE void MemoryHistory::clear() {
  const std::lock_guard lock(mutex_);
  events_.clear(), next_ = 0, dropped_ = 0;
}

IKEBANA_INLINE void MemoryHistory::allocated(const void* data, int64_t bytes, int64_t) noexcept {
  heard([&] {
    const Block block{bytes, ++number_, place(), stack()};
    blocks_.insert_or_assign(data, block);
    add({Action::Alloc, address(data), block.number, bytes, now(), block.place, block.stack});
  });
}

IKEBANA_INLINE void MemoryHistory::freed(const void* data, int64_t bytes) noexcept {
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

IKEBANA_INLINE void MemoryHistory::refused(int64_t bytes, int64_t limit) noexcept {
  const bool is_limited = limit != bridge::CountingAllocatorV2::no_limit;
  const std::int64_t left = is_limited ? std::max<std::int64_t>(0, limit - allocator_.now()) : 0;
  heard([&] {
    Event event{Action::OutOfMemory, 0, 0, bytes, now(), place(), stack()};
    event.left = left, add(event);
  });
}

IKEBANA_INLINE void MemoryHistory::described(const void* data, const char* kind,
                                             const char* unit) noexcept {
  heard([&] {
    const auto at = blocks_.find(data);
    if (at == blocks_.end() || at->second.kind != none) return;
    at->second.kind = names_.number(kind), at->second.unit = names_.number(unit);
  });
}

IKEBANA_INLINE std::uint32_t MemoryHistory::stack() {
  return options_.stack_traces ? stacks_.number(detail::stack_trace()) : none;
}

IKEBANA_INLINE std::int64_t MemoryHistory::now() {
  using namespace std::chrono;
  return duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
}

IKEBANA_INLINE void MemoryHistory::add(const Event& event) {
  if (events_.size() < options_.max_events) return events_.push_back(event);
  ++dropped_;
  if (options_.max_events == 0) return;
  events_[next_] = event;
  next_ = (next_ + 1) % options_.max_events;
}

IKEBANA_INLINE std::uint32_t MemoryHistory::kind_of(const Block& block, const char* freed_in) {
  if (block.kind != none) return block.kind;
  return names_.number(detail::kind_of(detail::where_of(places_[block.place]).phase, freed_in));
}

IKEBANA_INLINE std::uint32_t MemoryHistory::unit_of(const Block& block) {
  if (block.unit != none) return block.unit;
  return names_.number(detail::where_of(places_[block.place]).unit);
}

IKEBANA_INLINE MemoryRecord MemoryHistory::Reader::record() {
  read_blocks();
  read_freed();
  for (std::size_t i = 0; i < h_.events_.size(); ++i)
    read_event(h_.events_[(h_.next_ + i) % h_.events_.size()]);
  record_.dropped = h_.dropped_;
  lock_.unlock();  // names are asked of the system's loader, which has locks of its own
  for (auto& [where, stack] : unnamed_) where->stack = detail::names_of(stack);
  return std::move(record_);
}

IKEBANA_INLINE void MemoryHistory::Reader::read_blocks() {
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

IKEBANA_INLINE void MemoryHistory::Reader::read_freed() {
  for (const Event& event : h_.events_)
    if (event.action == Action::Free && event.number != 0)
      described_[event.number] = {event.kind, event.unit};
}

IKEBANA_INLINE void MemoryHistory::Reader::read_event(const Event& event) {
  const auto of = described_.find(event.number);
  const bool is_known = of != described_.end();
  record_.events.push_back({event.action, event.address, event.bytes, event.time_us, event.left,
                            is_known ? h_.names_[of->second.kind] : "other",
                            is_known ? h_.names_[of->second.unit] : "", event.number,
                            where(event.place, event.stack)});
}

IKEBANA_INLINE std::shared_ptr<const MemoryWhere> MemoryHistory::Reader::where(
    std::uint32_t place, std::uint32_t stack) {
  auto& known = where_[{place, stack}];
  if (known) return known;
  const auto made = detail::make_shared_apart<MemoryWhere>(detail::where_of(h_.places_[place]));
  if (stack != none) unnamed_.emplace_back(made, h_.stacks_[stack]);
  return known = made;
}

}  // namespace ikebana
