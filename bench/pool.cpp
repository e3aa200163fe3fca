// Measures MemPool: the allocations of one training step of a GPT, replayed through LibTorch's CPU
// allocator and through a pool, without and with a first touch of each page; and the step itself.
// They are interleaved, on one thread. Returns 1 if the replay with touched pages is less than
// twice as fast.
#include <c10/core/CPUAllocator.h>
#include <chrono>
#include <cstdio>
#include <ikebana/memory/pool.hpp>
#include <mutex>
#include <unordered_map>

#include "conditions.hpp"
#include "models/gpt.hpp"

namespace {

using namespace ikebana;
using Clock = std::chrono::steady_clock;

constexpr int rounds = 41, steps = 9;
constexpr double bar = 2;

/// An allocation of so many bytes, or, if `bytes` is 0, the end of one. `block` counts allocations.
struct Event {
  std::size_t block, bytes;
};

/// Records what is allocated and freed between `begin` and `end`.
class TraceRecorder : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    c10::DataPtr block = below_.allocate(bytes);
    if (bytes == 0) return block;
    std::lock_guard lock(mutex_);
    if (is_on_) events_.push_back({count_, bytes}), names_[block.get()] = count_++;
    return {block.get(), block.release_context(), &free, c10::kCPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free; }
  void copy_data(void* to, const void* from, std::size_t n) const override {
    default_copy_data(to, from, n);
  }
  void begin() { is_on_ = true; }
  std::vector<Event> end() {
    is_on_ = false;
    return events_;
  }
  static TraceRecorder& get() {
    static auto& recorder = *new TraceRecorder;
    return recorder;
  }

 private:
  static void free(void* data) {
    auto& self = get();
    {
      std::lock_guard lock(self.mutex_);
      if (auto found = self.names_.find(data); found != self.names_.end()) {
        if (self.is_on_) self.events_.push_back({found->second, 0});
        self.names_.erase(found);
      }
    }
    self.below_.raw_deleter()(data);
  }

  c10::Allocator& below_ = *c10::GetDefaultCPUAllocator();
  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> names_;
  std::vector<Event> events_;
  std::size_t count_ = 0;
  bool is_on_ = false;
};

const GPTConfig config{.layers = 6, .width = 384, .heads = 6, .context = 256};

Tokens batch() {
  torch::manual_seed(1);
  return random_batch(config, 8, 256);
}
GPT model() {
  torch::manual_seed(0);
  return GPT(config);
}

/// Traces the third step: the optimizer's state exists, and gradients are left from the second.
std::vector<Event> trace_of_step() {
  c10::SetCPUAllocator(&TraceRecorder::get(), 255);
  std::vector<Event> events;
  {
    Trainer trainer{model(), AdamW{}, ClipGradNorm{}};
    const Tokens tokens = batch();
    trainer.step(tokens), trainer.step(tokens);
    TraceRecorder::get().begin();
    trainer.step(tokens);
    events = TraceRecorder::get().end();
  }
  c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 255);
  return events;
}

double replay(const std::vector<Event>& events, std::vector<c10::DataPtr>& blocks,
              c10::Allocator& allocator, bool touch) {
  const auto begin = Clock::now();
  for (const Event& event : events) {
    if (event.bytes == 0) {
      blocks[event.block].clear();
      continue;
    }
    c10::DataPtr& block = blocks[event.block] = allocator.allocate(event.bytes);
    if (!touch) continue;
    auto* bytes = static_cast<volatile char*>(block.get());
    for (std::size_t i = 0; i < event.bytes; i += 4096) bytes[i] = 1;
  }
  for (c10::DataPtr& block : blocks) block.clear();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Prints a row. Returns how many times as long LibTorch's allocator takes.
double compare(const char* name, const std::vector<Event>& events, bool touch) {
  std::size_t count = 0;
  for (const Event& event : events) count += event.bytes != 0;
  std::vector<c10::DataPtr> blocks(count);
  MemPool pool;
  std::vector<double> raw, pooled, ratio;
  for (int i = 0; i < rounds; ++i) {
    raw.push_back(replay(events, blocks, *c10::GetDefaultCPUAllocator(), touch));
    UseMemPool use(pool);
    pooled.push_back(replay(events, blocks, *c10::GetCPUAllocator(), touch));
    ratio.push_back(raw.back() / pooled.back());
  }
  std::printf("| %s | %.3f | %.3f | %.2f |\n", name, 1e3 * bench::median(raw),
              1e3 * bench::median(pooled), bench::median(ratio));
  return bench::median(ratio);
}

void print_memory(const std::vector<Event>& events) {
  std::vector<std::size_t> sizes;
  std::size_t now = 0, peak = 0;
  for (const Event& event : events) {
    if (event.bytes != 0) sizes.push_back(event.bytes), now += event.bytes;
    else now -= sizes[event.block];
    peak = std::max(peak, now);
  }
  MemPool pool;
  {
    UseMemPool use(pool);
    std::vector<c10::DataPtr> blocks(sizes.size());
    for (int i = 0; i < 3; ++i) replay(events, blocks, *c10::GetCPUAllocator(), false);
  }
  std::printf("\n%zu allocations, %.1f MiB at the peak; the pool holds %.1f MiB\n", sizes.size(),
              static_cast<double>(peak) / (1 << 20),
              static_cast<double>(pool.reserved()) / (1 << 20));
}

/// Compares the whole step with a pool and without, each with a model of its own.
bool compare_steps() {
  Trainer plain{model(), AdamW{}, ClipGradNorm{}}, pooled{model(), AdamW{}, ClipGradNorm{}};
  const Tokens tokens = batch();
  MemPool pool;
  std::vector<double> without, with, ratio;
  bool same = true;
  for (int i = 0; i < steps; ++i) {
    auto begin = Clock::now();
    const double loss = plain.step(tokens).loss();
    without.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    UseMemPool use(pool);
    begin = Clock::now();
    same &= pooled.step(tokens).loss() == loss;
    with.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    ratio.push_back(without.back() / with.back());
  }
  std::printf("| the step | %.0f | %.0f | %.2f%s |\n", 1e3 * bench::median(without),
              1e3 * bench::median(with), bench::median(ratio), same ? "" : " OTHER LOSSES");
  return same;
}

}  // namespace

int main() {
  at::set_num_threads(1);
  bench::print_conditions("", rounds);
  const auto events = trace_of_step();
  std::printf("\n| | LibTorch's, ms | pool, ms | ratio |\n|---|---:|---:|---:|\n");
  compare("allocations alone", events, false);
  const double touched = compare("first touch of each page", events, true);
  const bool same = compare_steps();
  print_memory(events);
  if (touched < bar) std::printf("BELOW THE BAR of %.1f\n", bar);
  return touched < bar || !same ? 1 : 0;
}
