#pragma once
#include <algorithm>
#include <ikebana/capture/arena.hpp>
#include <ikebana/detail/form.hpp>
#include <numeric>

namespace ikebana::detail {

IKEBANA_INLINE ArenaPlan plan_arena(const std::vector<RecordedMemory>& memory,
                                    const std::vector<bool>& is_placed) {
  struct Placed {
    std::uint32_t first, last;
    std::size_t begin, end;
  };
  constexpr std::size_t alignment = 64;
  ArenaPlan plan{.places = std::vector<std::size_t>(memory.size(), ArenaPlan::nowhere)};
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < memory.size(); ++i)
    if (is_placed[i]) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return memory[a].bytes > memory[b].bytes;
  });
  std::vector<Placed> placed;
  std::vector<std::pair<std::size_t, std::size_t>> in_use;  // while the present one is needed
  for (const std::size_t i : order) {
    const RecordedMemory& one = memory[i];
    const std::size_t header = one.name == scratch_name ? ArenaPlan::header_bytes : 0;
    const std::size_t bytes = (one.bytes + alignment - 1) / alignment * alignment + header;
    const std::uint32_t last = one.outlives ? RecordedMemory::none : one.last;
    in_use.clear();
    for (const Placed& other : placed)
      if (other.first <= last && one.first <= other.last) in_use.push_back({other.begin, other.end});
    std::sort(in_use.begin(), in_use.end());
    std::size_t at = 0;
    for (const auto& [begin, end] : in_use) {
      if (at + bytes <= begin) break;
      at = std::max(at, end);
    }
    placed.push_back({one.first, last, at, at + bytes});
    plan.places[i] = at + header;
    plan.bytes = std::max(plan.bytes, at + bytes);
  }
  return plan;
}

IKEBANA_INLINE void Arena::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  release();
  block_ = c10::GetCPUAllocator()->allocate(bytes);
  bytes_ = bytes;
}

}  // namespace ikebana::detail
