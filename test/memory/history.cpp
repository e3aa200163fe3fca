// Tests MemoryScope, MemoryHistory and LeakFinder, against allocations of known size and the
// counter.
#include "test.hpp"

#include <c10/core/CPUAllocator.h>
#include <ikebana/memory.hpp>
#include <numeric>
#include <thread>

using namespace ikebana;

namespace test::memory_history {

at::Tensor bytes(std::int64_t count) { return at::empty({count}, at::kByte); }
using Action = MemoryEvent::Action;

TEST_CASE("memory scope: allocated, freed and peak are of the scope, also of nested ones") {
  const bridge::MemoryCounter from_here(at::kCPU);  // what follows is counted
  at::Tensor outside = bytes(1000);
  MemoryScope outer("outer");
  const at::Tensor kept = bytes(300);
  {
    MemoryScope inner("inner");
    bytes(500);
    CHECK(inner.allocated() == 0);
    CHECK(inner.peak() == 500);
    CHECK(inner.before() == outer.before() + 300);
    inner.reset_peak();
    CHECK(inner.peak() == 0);
    std::thread([&] { bytes(200); }).join();
    CHECK(inner.peak() == 200);
  }
  CHECK(outer.allocated() == 300);
  CHECK(outer.peak() == 800);
  outside.reset();
  CHECK(outer.allocated() == -700);
  CHECK(outer.in_use() == outer.before() - 700);
  CHECK(outer.text() == "outer: allocated -700 B, peak 800 B, on cpu");
  CHECK(outer.facts().free.value() > 0);
  CHECK(outer.facts().total.value() >= outer.facts().free.value());
  CHECK(contains(message_of<Error>([] { const MemoryScope scope("", at::kMeta); }), "meta"));
}

TEST_CASE("memory summary: bytes in use and their peak since the last reset") {
  (void)memory_summary();
  reset_memory_peak();
  const bridge::MemoryCounter counter(at::kCPU);
  bytes(64 << 20);
  const std::string text = memory_summary();
  CHECK(contains(text, ikebana::detail::bytes_row("allocated", counter.now())));
  CHECK(contains(text, ikebana::detail::bytes_row("peak", counter.now() + (64 << 20))));
  CHECK(contains(text, "free "));
  reset_memory_peak();
  CHECK(contains(memory_summary(), ikebana::detail::bytes_row("peak", counter.now())));
}

/// Returns the bytes in use after each event. Checks that each free is of what was allocated.
std::vector<std::int64_t> replay(const MemoryRecord& record) {
  std::map<std::uint64_t, const MemoryEvent*> there;
  std::vector<std::int64_t> sums{0};
  for (const MemoryEvent& event : record.events) {
    if (event.action == Action::OutOfMemory) continue;
    const bool is_free = event.action == Action::Free;
    sums.push_back(sums.back() + (is_free ? -event.bytes : event.bytes));
    if (event.number == 0) continue;
    if (!is_free) {
      CHECK(there.emplace(event.number, &event).second);
      continue;
    }
    const auto made = there.extract(event.number);
    REQUIRE_FALSE(made.empty());
    CHECK(made.mapped()->address == event.address);
    CHECK(made.mapped()->bytes == event.bytes);
    CHECK(made.mapped()->kind == event.kind);
  }
  CHECK(there.size() == record.blocks.size());
  for (const MemoryBlock& block : record.blocks) CHECK(there.contains(block.number));
  return sums;
}

TEST_CASE("memory history: every allocation and free, in order, with the counter's sums") {
  at::Tensor before = bytes(100);
  MemoryHistory history;
  MemoryScope scope;
  at::Tensor kept = bytes(1000);
  bytes(2000);
  before.reset();
  const MemoryRecord record = history.record();
  REQUIRE(record.events.size() == 4);
  const std::vector<std::int64_t> sums = replay(record);
  CHECK(*std::max_element(sums.begin(), sums.end()) == scope.peak());
  CHECK(sums.back() == scope.allocated());
  CHECK(record.events[3].number == 0);  // memory that existed before
  CHECK(record.events[3].address != 0);
  REQUIRE(record.blocks.size() == 1);
  CHECK(record.blocks[0].address == reinterpret_cast<std::uintptr_t>(kept.data_ptr()));
  CHECK(record.blocks[0].bytes == 1000);
  CHECK(record.in_use == scope.in_use());
  CHECK(record.before == scope.in_use() - 1000);
  CHECK(std::is_sorted(record.events.begin(), record.events.end(),
                       [](const auto& a, const auto& b) { return a.time_us < b.time_us; }));
}

TEST_CASE("memory history: labels are those of the thread's scopes, the innermost first") {
  MemoryHistory history;
  std::vector<at::Tensor> kept;
  {
    const MemoryScope outer("outer");
    {
      const MemoryScope inner("inner"), unnamed;
      kept.push_back(bytes(1));
    }
    kept.push_back(bytes(2));
    std::thread([&] { kept.push_back(bytes(3)); }).join();
  }
  kept.push_back(bytes(4));
  const MemoryRecord record = history.record();
  std::map<std::int64_t, std::vector<std::string>> labels;
  for (const MemoryBlock& block : record.blocks) labels[block.bytes] = block.where->labels;
  CHECK(labels[1] == std::vector<std::string>{"inner", "outer"});
  CHECK(labels[2] == std::vector<std::string>{"outer"});
  CHECK(labels[3].empty());
  CHECK(labels[4].empty());
}

TEST_CASE("memory history: its bound drops the oldest events, and no block") {
  MemoryHistory history({.max_events = 5});
  std::vector<at::Tensor> kept;
  for (int i = 1; i <= 8; ++i) kept.push_back(bytes(i));
  MemoryRecord record = history.record();
  REQUIRE(record.events.size() == 5);
  CHECK(record.dropped == 3);
  for (std::size_t i = 0; i < 5; ++i) CHECK(record.events[i].bytes == std::int64_t(i) + 4);
  CHECK(record.blocks.size() == 8);
  history.clear();
  kept.pop_back();
  record = history.record();
  CHECK(record.dropped == 0);
  REQUIRE(record.events.size() == 1);
  CHECK(record.events[0].action == Action::Free);
  CHECK(record.events[0].number == 8);
  CHECK(record.blocks.size() == 7);
}

TEST_CASE("memory history: what did not fit is an event, with what the limit left") {
  MemoryHistory history;
  {
    const bridge::MemoryLimit limit(MemoryScope().in_use() + 50);
    const MemoryScope scope("too much");
    CHECK_THROWS_AS(bytes(60), OutOfMemory);
  }
  const MemoryRecord record = history.record();
  REQUIRE(record.events.size() == 1);
  CHECK(record.events[0].action == Action::OutOfMemory);
  CHECK(record.events[0].bytes == 60);
  CHECK(record.events[0].left == 50);
  CHECK(record.events[0].where->text() == "in too much");
}

TEST_CASE("memory history: four threads, and copies meanwhile") {
  MemoryHistory history({.max_events = 1000});
  std::vector<std::thread> running;
  for (int t = 0; t < 4; ++t)
    running.emplace_back([t] {
      const MemoryScope scope("thread " + std::to_string(t));
      std::vector<at::DataPtr> held(8);
      for (std::size_t i = 0; i < 3000; ++i)
        held[i % 8] = c10::GetCPUAllocator()->allocate(1 + i % 999);
    });
  for (int i = 0; i < 20; ++i) {
    const MemoryRecord record = history.record();
    for (const MemoryBlock& block : record.blocks) CHECK(block.where->labels.size() == 1);
  }
  for (auto& thread : running) thread.join();
  const MemoryRecord record = history.record();
  CHECK(record.blocks.empty());
  CHECK(record.dropped + record.events.size() == 4 * 2 * 3000);
}

TEST_CASE("leaks: what is in use and was not before, by where it was made") {
  std::vector<at::Tensor> kept{bytes(5000)};
  LeakFinder finder;
  CHECK(finder.leaks().empty());
  CHECK(finder.text().empty());
  {
    const MemoryScope scope("losses");
    for (int i = 0; i < 3; ++i) kept.push_back(bytes(400));
    bytes(800);
  }
  kept.push_back(bytes(10));
  kept.push_back(kept.back().slice(0, 0, 5));  // shares its memory
  const std::vector<Leak> leaks = finder.leaks();
  REQUIRE(leaks.size() == 2);
  CHECK(leaks[0].bytes == 1200);
  CHECK(leaks[0].count == 3);
  CHECK(leaks[0].where->labels == std::vector<std::string>{"losses"});
  CHECK(leaks[1].bytes == 10);
  CHECK(finder.text() ==
        "3 blocks, 1200 bytes (1.2 KiB), made in losses\n1 block, 10 bytes, made (no label)\n");
  kept.clear();
  CHECK(finder.leaks().empty());
}

TEST_CASE("leaks: the functions that made it, from LibTorch's on, where it was asked for") {
  LeakFinder finder({.stack_traces = true});
  const at::Tensor kept = at::ones({4});
  const std::string text = finder.text();
  CAPTURE(text);
  CHECK(contains(text, "at::_ops::ones::call"));
  CHECK(contains(text, "libtorch_cpu.so+0x"));
  const auto first = finder.leaks()[0].where->stack.at(0);
  CHECK_FALSE(contains(first, "ikebana"));
  CHECK(contains(first, "libtorch"));
}

}  // namespace test::memory_history
