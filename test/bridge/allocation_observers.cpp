// Tests what observers of the counting allocator are called with, on all threads, and that none is
// called after its end.
#include <ikebana/posix/machine_memory.hpp>
#include "test.hpp"

#include <filesystem>
#include <fstream>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/memory_facts.hpp>
#include <memory>
#include <thread>
#include <unordered_map>

using namespace ikebana;

namespace test::allocation_observers {

/// Keeps every block, and whether each free is of one.
struct Keeper : bridge::AllocationObserverV2 {
  std::unordered_map<const void*, std::int64_t> blocks;
  std::int64_t bytes = 0, peak = 0, calls = 0, refusals = 0, unknown = 0;
  std::string said;
  void allocated(const void* data, int64_t n, int64_t in_use) noexcept override {
    ++calls, bytes += n, peak = std::max(peak, in_use);
    if (!blocks.emplace(data, n).second) ++unknown;
  }
  void freed(const void* data, int64_t n) noexcept override {
    ++calls;
    const auto at = blocks.find(data);
    if (at == blocks.end() || at->second != n) return void(++unknown);
    bytes -= n, blocks.erase(at);
  }
  void refused(int64_t, int64_t) noexcept override { ++refusals; }
  void described(const void*, const char* kind, const char* unit) noexcept override {
    said += std::string(kind) + " of " + unit + ";";
  }
};
struct Heard : Keeper {
  bridge::CountingAllocatorV2& allocator = bridge::CountingAllocatorV2::install();
  Heard() { allocator.add(*this); }
  ~Heard() override { allocator.remove(*this); }
};

TEST_CASE("allocation observers: each hears every allocation and free, with the counter's bytes") {
  bridge::MemoryCounter counter(at::kCPU);
  const std::int64_t before = counter.now();
  Heard first;
  const at::Tensor kept = at::ones({100}, at::kDouble);
  {
    Heard second;
    const at::Tensor more = at::ones({50}, at::kDouble);
    CHECK(first.bytes == 1200);
    CHECK(second.bytes == 400);
    CHECK(first.peak == before + 1200);
    CHECK(counter.now() == before + 1200);
  }
  CHECK(first.bytes == 800);
  CHECK(first.calls == 3);
  at::empty({0});
  CHECK(first.calls == 3);
  first.allocator.tell([&](auto& observer) { observer.described(nullptr, "parameter", "a"); });
  CHECK(first.said == "parameter of a;");
}

TEST_CASE("allocation observers: what does not fit is told, and counted by none") {
  Heard heard;
  {
    const bridge::MemoryLimit limit(heard.allocator.now() + 100);
    CHECK_THROWS_AS(at::empty({101}, at::kByte), OutOfMemory);
  }
  CHECK(heard.refusals == 1);
  CHECK(heard.calls == 0);
}

TEST_CASE("allocation observers: what the system has no room for is told as well") {
  struct Full : c10::Allocator {
    c10::DataPtr allocate(std::size_t size) override { TORCH_CHECK(false, "no room for ", size); }
    void copy_data(void*, const void*, std::size_t) const override {}
  } full;
  bridge::CountingAllocatorV2 counting(full);
  Keeper keeper;
  counting.add(keeper);
  CHECK_THROWS_AS(counting.allocate(100), c10::Error);
  counting.remove(keeper);
  CHECK_THROWS_AS(counting.allocate(100), c10::Error);
  CHECK(keeper.refusals == 1);
  CHECK(keeper.calls == 0);
}

TEST_CASE("allocation observers: four threads at once, while others come and go") {
  constexpr int threads = 4, rounds = 4000;
  Heard all;
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t)
    running.emplace_back([&all] {
      std::vector<at::DataPtr> held(8);
      for (std::size_t i = 0; i < rounds; ++i) held[i % 8] = all.allocator.allocate(1 + i % 999);
    });
  std::int64_t unknown = 0;
  for (int i = 0; i < 100; ++i) {
    auto passing = std::make_unique<Heard>();
    std::this_thread::yield();
    all.allocator.remove(*passing);  // from here on it can be read
    for (const auto& [data, bytes] : passing->blocks) unknown += bytes <= 0;
  }
  for (auto& thread : running) thread.join();
  CHECK(all.calls == 2 * threads * rounds);
  CHECK(all.unknown == 0);  // a free is heard before another allocation has the address
  CHECK(all.blocks.empty());
  CHECK(all.bytes == 0);
  CHECK(unknown == 0);
}

TEST_CASE("allocation observers: in the copy of a process that forgot them none hears") {
  Heard heard;
  heard.allocator.forget_observers();
  at::empty({10}, at::kByte);
  CHECK(heard.calls == 0);
}

/// A tree of files of Linux.
struct Machine {
  std::filesystem::path root = std::filesystem::temp_directory_path() / "ikebana_machine";
  Machine() {
    std::filesystem::remove_all(root);
    write("proc/meminfo", "MemTotal:  1000 kB\nMemFree:  10 kB\nMemAvailable:  600 kB\n");
    write("proc/self/status", "Name: x\nVmRSS:  20 kB\n");
  }
  ~Machine() { std::filesystem::remove_all(root); }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
  auto memory() const { return ikebana::detail::machine_memory(root.string()); }
};

TEST_CASE("machine memory: what is available, within the control groups of the process") {
  const Machine machine;
  const auto free = [&] { return machine.memory()->free; };
  CHECK(machine.memory()->total == 1000 * 1024);
  CHECK(machine.memory()->resident == 20 * 1024);
  CHECK(free() == 600 * 1024);
  machine.write("proc/self/cgroup", "0::/outer/inner\n");
  CHECK(free() == 600 * 1024);
  const std::string group = "sys/fs/cgroup/outer/";
  machine.write(group + "inner/memory.max", "max\n");
  machine.write(group + "inner/memory.current", "5000\n");
  machine.write(group + "memory.max", "100000\n");
  machine.write(group + "memory.current", "70000\n");
  CHECK(free() == 30000);
  CHECK(machine.memory()->total == 100000);
  machine.write(group + "memory.stat", "anon 1\ninactive_file 20000\n");
  CHECK(free() == 50000);
  machine.write(group + "inner/memory.max", "9000\n");
  CHECK(free() == 4000);
  machine.write(group + "inner/memory.current", "9500\n");
  CHECK(free() == 0);
}

TEST_CASE("machine memory: the first version of control groups, a container's root, no /proc") {
  const Machine machine;
  machine.write("proc/self/cgroup", "12:cpu,cpuacct:/\n9:memory:/job\n0::/\n");
  machine.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "50000\n");
  machine.write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "20000\n");
  CHECK(machine.memory()->free == 30000);
  machine.write("sys/fs/cgroup/memory.max", "20000\n");  // the limit of the second version, as its
                                                         // root
  machine.write("sys/fs/cgroup/memory.current", "1000\n");
  CHECK(machine.memory()->free == 19000);
  CHECK_FALSE(ikebana::detail::machine_memory("/nowhere"));
}

}  // namespace test::allocation_observers
