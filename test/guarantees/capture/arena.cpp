// Plans of arenas, of random memory: what is needed at the same time lies apart, and what has room
// in an arena that is planned already is placed there.
#include <ikebana/capture/arena.hpp>
#include <random>

#include "test.hpp"

namespace guarantees::arenas {

using ikebana::detail::ArenaPlan;
using ikebana::detail::RecordedMemory;
using Memory = std::vector<RecordedMemory>;

struct Part {
  std::size_t begin, end;
};
/// Returns the part of an arena that some memory takes, with the header of scratch memory.
Part part_of(const ArenaPlan& plan, const Memory& memory, std::size_t i) {
  const bool has_header = memory[i].name == ikebana::detail::scratch_name;
  return {plan.places[i] - (has_header ? ArenaPlan::header_bytes : 0),
          plan.places[i] + memory[i].bytes};
}
bool same_time(const RecordedMemory& a, const RecordedMemory& b) {
  auto last = [](const RecordedMemory& one) {
    return one.outlives ? RecordedMemory::none : one.last;
  };
  return a.first <= last(b) && b.first <= last(a);
}

/// Returns memory that is first used from `begin` to before `end`, and last used later.
Memory made(std::mt19937& random, std::size_t n, std::uint32_t begin, std::uint32_t end) {
  auto upto = [&](std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(0, most)(random);
  };
  Memory all(n);
  for (RecordedMemory& one : all) {
    one.bytes = 1 + upto(999);
    one.first = begin + upto(end - begin - 1), one.last = one.first + upto(9);
    one.outlives = upto(9) == 0;
    if (upto(3) == 0) one.name = ikebana::detail::scratch_name;
  }
  return all;
}

/// Checks all that is placed by one plan, or by the other of two that share an arena.
void check(const Memory& memory, const ArenaPlan& a, const ArenaPlan& b) {
  auto place = [&](std::size_t i) { return a.places[i] != ArenaPlan::nowhere ? &a : &b; };
  int overlaps = 0, outside = 0, misaligned = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (place(i)->places[i] == ArenaPlan::nowhere) continue;
    const Part one = part_of(*place(i), memory, i);
    outside += one.end > a.bytes ? 1 : 0;
    misaligned += one.begin % 64 != 0 ? 1 : 0;
    for (std::size_t k = 0; k < i; ++k) {
      if (place(k)->places[k] == ArenaPlan::nowhere || !same_time(memory[i], memory[k])) continue;
      const Part other = part_of(*place(k), memory, k);
      overlaps += one.begin < other.end && other.begin < one.end ? 1 : 0;
    }
  }
  CHECK(overlaps == 0);
  CHECK(outside == 0);
  CHECK(misaligned == 0);
}

TEST_CASE("capture: plans of arenas keep apart what is needed at the same time") {
  std::size_t within = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    Memory memory = made(random, 30, 0, 20);
    const Memory later = made(random, 20, 20, 40);
    memory.insert(memory.end(), later.begin(), later.end());
    std::vector<bool> first(50), second(50);
    for (std::size_t i = 0; i < 50; ++i) first[i] = i < 30, second[i] = i >= 30;
    for (std::size_t i = 0; i < 30; i += 3) memory[i].last = 35;  // it is needed later as well

    const ArenaPlan plan = ikebana::detail::plan_arena(memory, first);
    check(memory, plan, plan);
    const ArenaPlan more = ikebana::detail::plan_within(plan, memory, second);
    CHECK(more.bytes == plan.bytes);
    check(memory, plan, more);
    for (std::size_t i = 0; i < 50; ++i) {
      CHECK((plan.places[i] != ArenaPlan::nowhere) == first[i]);
      if (more.places[i] == ArenaPlan::nowhere) continue;
      CHECK(second[i]);
      ++within;
    }
  }
  CHECK(within > 40);
}

TEST_CASE("capture: what has no room in an arena is placed elsewhere") {
  Memory memory(3);
  memory[0].bytes = 128, memory[0].first = 0, memory[0].last = 5;
  memory[1].bytes = 128, memory[1].first = 6, memory[1].last = 7;
  memory[2].bytes = 64, memory[2].first = 5, memory[2].last = 6;
  const ArenaPlan plan = ikebana::detail::plan_arena(memory, {true, false, false});
  const ArenaPlan more = ikebana::detail::plan_within(plan, memory, {false, true, true});
  CHECK(plan.bytes == 128);
  CHECK(more.places[1] == 0);
  CHECK(more.places[2] == ArenaPlan::nowhere);
}

}  // namespace guarantees::arenas
