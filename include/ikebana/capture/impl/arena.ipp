#pragma once
#include <algorithm>
#include <ikebana/capture/arena.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <map>

namespace ikebana::detail {

inline std::uint32_t last_use(const RecordedMemory& one) {
  return one.outlives ? RecordedMemory::none : one.last;
}
inline std::size_t header_of(const RecordedMemory& one) {
  return one.name == scratch_name ? ArenaPlan::header_bytes : 0;
}
/// Returns the bytes of an arena that some memory takes, with its header.
inline std::size_t taken_by(const RecordedMemory& one) {
  constexpr std::size_t alignment = 64;
  return (one.bytes + alignment - 1) / alignment * alignment + header_of(one);
}

/// The parts of an arena, and when each of them is needed.
class ArenaParts {
 public:
  /// Returns the lowest place that is free while this memory is needed, with room for its header.
  std::size_t lowest_for(const RecordedMemory& one) {
    in_use_.clear();
    for (const Part& other : parts_)
      if (other.first <= last_use(one) && one.first <= other.last)
        in_use_.push_back({other.begin, other.end});
    std::sort(in_use_.begin(), in_use_.end());
    std::size_t at = 0;
    for (const auto& [begin, end] : in_use_) {
      if (at + taken_by(one) <= begin) break;
      at = std::max(at, end);
    }
    return at;
  }
  void add(const RecordedMemory& one, std::size_t at) {
    parts_.push_back({one.first, last_use(one), at, at + taken_by(one)});
  }

 private:
  struct Part {
    std::uint32_t first, last;
    std::size_t begin, end;
  };
  std::vector<Part> parts_;
  std::vector<std::pair<std::size_t, std::size_t>> in_use_;  // while the present one is needed
};

/// Places memory in the given order, each at the lowest address that is free while it is needed.
inline ArenaPlan placed_in_order(const std::vector<RecordedMemory>& memory,
                                 const std::vector<std::size_t>& order) {
  ArenaPlan plan{.places = std::vector<std::size_t>(memory.size(), ArenaPlan::nowhere)};
  ArenaParts parts;
  for (const std::size_t i : order) {
    const std::size_t at = parts.lowest_for(memory[i]);
    parts.add(memory[i], at);
    plan.places[i] = at + header_of(memory[i]);
    plan.bytes = std::max(plan.bytes, at + taken_by(memory[i]));
  }
  return plan;
}

/// Returns the place in the order of the memory that ends highest.
inline std::size_t highest(const ArenaPlan& plan, const std::vector<RecordedMemory>& memory,
                           const std::vector<std::size_t>& order) {
  auto end = [&](std::size_t i) { return plan.places[i] + memory[i].bytes; };
  return static_cast<std::size_t>(
      std::max_element(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return end(a) < end(b); }) -
      order.begin());
}

/// A moment of a recording, and the bytes that are in use then.
struct Moment {
  std::uint32_t at;
  std::size_t bytes;
};
/// Returns the moment in which most bytes are in use. No plan has a smaller arena.
inline Moment busiest(const std::vector<RecordedMemory>& memory,
                      const std::vector<std::size_t>& order) {
  std::map<std::uint32_t, std::int64_t> changes;
  for (const std::size_t i : order) {
    const auto bytes = static_cast<std::int64_t>(taken_by(memory[i]));
    changes[memory[i].first] += bytes;
    if (!memory[i].outlives) changes[memory[i].last + 1] -= bytes;
  }
  std::int64_t now = 0, most = 0;
  std::uint32_t at = 0;
  for (const auto& [moment, change] : changes)
    if ((now += change) > most) most = now, at = moment;
  return {at, static_cast<std::size_t>(most)};
}

/// Places memory in this order, and in others that begin with what lay highest, where all low
/// places are still free. Returns the best plan. `least` is the size that no plan goes below.
inline ArenaPlan improved(const std::vector<RecordedMemory>& memory, std::vector<std::size_t> order,
                          std::size_t least) {
  constexpr std::size_t most_work = 100'000'000;
  const std::size_t attempts =
      std::min<std::size_t>(100, most_work / (order.size() * order.size()));
  ArenaPlan best = placed_in_order(memory, order), present = best;
  for (std::size_t attempt = 0; attempt < attempts && best.bytes > least; ++attempt) {
    const auto at = static_cast<std::ptrdiff_t>(highest(present, memory, order));
    if (at == 0) break;
    std::rotate(order.begin(), order.begin() + at, order.begin() + at + 1);
    present = placed_in_order(memory, order);
    if (present.bytes < best.bytes) best = present;
  }
  return best;
}

IKEBANA_INLINE ArenaPlan plan_arena(const std::vector<RecordedMemory>& memory,
                                    const std::vector<bool>& is_placed) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < memory.size(); ++i)
    if (is_placed[i]) order.push_back(i);
  if (order.empty()) return placed_in_order(memory, order);
  auto sort_by = [&](auto&& key) {
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return key(memory[a]) > key(memory[b]); });
  };
  const auto [busy, least] = busiest(memory, order);
  sort_by([](const RecordedMemory& one) { return one.bytes; });
  ArenaPlan by_size = improved(memory, order, least);
  if (by_size.bytes <= least) return by_size;
  // Memory that is in use at the busiest moment lies side by side, the longest in use below.
  sort_by([at = busy](const RecordedMemory& one) {
    const bool is_in_use = one.first <= at && at <= last_use(one);
    return std::pair(is_in_use, is_in_use ? last_use(one) - one.first : one.bytes);
  });
  ArenaPlan by_use = improved(memory, order, least);
  return by_use.bytes < by_size.bytes ? by_use : by_size;
}

IKEBANA_INLINE ArenaPlan plan_within(const ArenaPlan& plan,
                                     const std::vector<RecordedMemory>& memory,
                                     const std::vector<bool>& is_placed) {
  ArenaPlan within{.places = std::vector<std::size_t>(memory.size(), ArenaPlan::nowhere),
                   .bytes = plan.bytes};
  ArenaParts parts;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (plan.places[i] != ArenaPlan::nowhere)
      parts.add(memory[i], plan.places[i] - header_of(memory[i]));
    if (is_placed[i]) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return memory[a].bytes > memory[b].bytes; });
  for (const std::size_t i : order) {
    const std::size_t at = parts.lowest_for(memory[i]);
    if (at + taken_by(memory[i]) > plan.bytes) continue;
    parts.add(memory[i], at);
    within.places[i] = at + header_of(memory[i]);
  }
  return within;
}

IKEBANA_INLINE void Arena::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  release();
  block_ = c10::GetCPUAllocator()->allocate(bytes);
  bytes_ = bytes;
}

}  // namespace ikebana::detail
