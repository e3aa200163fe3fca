// Examples of the reference: estimates of memory, and tools that see it.
#include <unistd.h>

#include <filesystem>
#include <ikebana/estimate.hpp>
#include <ikebana/memory.hpp>
#include <ikebana/memory/device_pool.hpp>

#include "policies.hpp"

namespace test::reference::memory {

TEST_CASE_FIXTURE(Small, "reference: an estimate") {
  Printed printed;
  // example: estimate, Estimate, EstimateOptions, UnitMemory, shapes
  using Recipe = Trainer<nn::Sequential, CrossEntropyLoss, AdamW>;
  auto make = [] { return nn::Sequential(nn::Linear(4, 16), nn::Linear(16, 3)); };
  EstimateOptions options;  // under Shard<FSDP> also {.ranks = 8}
  Estimate memory = estimate<Recipe>(make, shapes(batch), options);
  std::cout << memory << memory.peak << " bytes at most\n";
  for (const UnitMemory& unit : memory.units)
    std::cout << unit.name << ": " << unit.activations << '\n';
  // end
  CHECK(contains(printed.text(), "bytes at most"));
  CHECK(memory.parameters == 4 * (4 * 16 + 16 + 16 * 3 + 3));
}

TEST_CASE("reference: the memory of any code") {
  {
    Printed printed;
    // example: MemoryScope, MemoryFacts
    MemoryScope scope("images");
    at::Tensor images = at::zeros({64, 3, 32, 32});
    std::cout << scope.text() << '\n';  // images: allocated 768.0 KiB, peak 768.0 KiB, on cpu
    MemoryFacts facts = scope.facts();
    std::cout << facts.free.value_or(0) << " bytes are free\n";
    // end
    CHECK(printed.text().starts_with("images: allocated 768.0 KiB, peak 768.0 KiB, on cpu\n"));
  }
  {
    Printed printed;
    // example: memory_summary, reset_memory_peak
    std::cout << memory_summary();
    reset_memory_peak();  // the next summary has the peak from here on
    // end
    CHECK(contains(printed.text(), "memory of cpu"));
  }
}

TEST_CASE("reference: a history of memory") {
  const auto folder =
      std::filesystem::temp_directory_path() / ("ikebana_reference_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  {
    Printed printed;
    // example: MemoryHistory, MemoryHistoryOptions, MemoryRecord, MemoryBlock, MemoryWhere
    MemoryHistory history(MemoryHistoryOptions{.max_events = 1000});
    MemoryScope scope("batch 7");
    at::Tensor kept = at::zeros({1024});
    MemoryRecord record = history.record();
    for (const MemoryBlock& block : record.blocks) {  // what is in use
      const MemoryWhere& where = *block.where;
      std::cout << block.bytes << " bytes, made " << where.text() << '\n';
    }
    // end

    // example: MemoryEvent
    for (const MemoryEvent& event : record.events)  // what happened
      if (event.action == MemoryEvent::Action::Alloc) std::cout << event.bytes << " allocated\n";
    // end
    CHECK(printed.text() == "4096 bytes, made in batch 7\n4096 allocated\n");

    // example: save_memory_page, save_memory_snapshot
    save_memory_page(folder / "memory.html", history);        // for a browser
    save_memory_snapshot(folder / "memory.pickle", history);  // for torch.cuda._memory_viz
    // end
  }
  CHECK(std::filesystem::file_size(folder / "memory.html") > 0);
  CHECK(std::filesystem::file_size(folder / "memory.pickle") > 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("reference: leaks") {
  Printed printed;
  // example: LeakFinder, LeakFinderOptions, Leak
  LeakFinder finder(LeakFinderOptions{.stack_traces = false});
  std::vector<at::Tensor> losses;
  for (int i = 0; i < 3; ++i) losses.push_back(at::zeros({}));  // kept by mistake
  for (const Leak& leak : finder.leaks())
    std::cout << leak.count << " blocks, " << leak.bytes << " bytes\n";
  // end
  CHECK(printed.text() == "3 blocks, 12 bytes\n");
}

TEST_CASE("reference: a pool of the CPU's memory") {
  // example: MemPool, MemPoolOptions, UseMemPool
  MemPool pool(MemPoolOptions{.limit = MiB(256)});
  for (int i = 0; i < 3; ++i) {
    UseMemPool use(pool);
    at::Tensor scratch = at::zeros({1 << 20});  // the same memory each time
  }
  std::int64_t released = pool.trim();
  // end
  CHECK((pool.hits() == 2 && pool.misses() == 1));
  CHECK(released >= MiB(4));
}

/// An allocator of an accelerator, which counts the pools that are there.
struct Allocator {
  int pools = 0;
  void createOrIncrefPool(c10::DeviceIndex, c10::MempoolId_t) { ++pools; }
  void beginAllocateToPool(c10::DeviceIndex, c10::MempoolId_t, std::function<bool(int)>) {
    ++pools;
  }
  void endAllocateToPool(c10::DeviceIndex, c10::MempoolId_t) {}
  void releasePool(c10::DeviceIndex, c10::MempoolId_t) { --pools; }
  void emptyCache(c10::MempoolId_t) {}
};

TEST_CASE("reference: a pool of an accelerator's memory") {
  Allocator allocator;
  const c10::Device device(c10::kPrivateUse1, 0);
  {
    // example: DeviceMemPool, UseDeviceMemPool
    // Of CUDA: `auto& allocator = *c10::cuda::CUDACachingAllocator::get();`.
    DeviceMemPool pool(allocator, device);
    UseDeviceMemPool use(pool);  // what this thread allocates on the device comes from the pool
    // end
    CHECK(allocator.pools == 2);
  }
  CHECK(allocator.pools == 0);
}

TEST_CASE("reference: writes in place") {
  const at::Tensor x = at::randn({8, 16}).requires_grad_();
  {
    Printed printed;
    // example: InPlaceChecker, SavedTensor, WriteEffect
    InPlaceChecker checker;
    at::Tensor y = x.sigmoid();
    for (const SavedTensor& saved : checker.would_break_backward(y))
      if (saved.effect == WriteEffect::Throws) std::cout << saved.text() << '\n';
    // end
    CHECK(printed.text() == "aten::sigmoid saved Float[8, 16] on cpu\n");
  }
  {
    Printed printed;
    // example: InPlaceOptions, OnWrite, InPlaceError
    InPlaceChecker checker(InPlaceOptions{.on_write = OnWrite::Throw});
    at::Tensor y = x.sigmoid();
    try {
      y.mul_(2);
    } catch (const InPlaceError& error) {
      std::cout << error.what() << '\n';
    }
    // end
    CHECK(contains(printed.text(), "aten::mul_"));
  }
}

TEST_CASE_FIXTURE(Small, "reference: names of units for a checker and a profiler") {
  // example: LabelUnits
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, LabelUnits{}};
  // end
  CHECK(trainer.steps() == 0);
}

}  // namespace test::reference::memory
