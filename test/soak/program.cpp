// Runs a long training of small steps, for soak.py. It has a recipe that uses much, batches of
// fifty shapes, and a new thread for every few steps. After each thread it prints what the process
// has: resident memory, bytes in use by malloc, open files, threads.
//
//   soak STEPS EVERY [LEAK]
//
// A thread makes EVERY steps. LEAK is what is leaked on purpose: `bytes`, 64 for each step, or a
// `descriptor` or a `thread` after each thread.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ikebana.hpp>
#include <string>
#include <thread>

#include "../../examples/models/gpt.hpp"

using namespace ikebana;

namespace {

using Recipe = Trainer<GPT, AdamW, CosineAnnealingLR, Precision<BF16>, Checkpoint<Selective>,
                       Accumulate<2>, ClipGradNorm, EMA, Observe<Memory>>;

const GPTConfig config{.layers = 1, .width = 16, .heads = 2, .context = 16, .dropout = 0.1};

/// Rows 2 to 11 and lengths 4, 7, 10, 13 and 16, neighbours far apart.
Tokens batch_of(std::int64_t step) {
  const std::int64_t shape = step * 37 % 50;
  return random_batch(config, 2 + shape % 10, 4 + 3 * (shape / 10));
}

std::int64_t entries(const char* folder) {
  std::int64_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    count += !entry.path().empty();
  return count;
}
std::int64_t resident_kib() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * (::sysconf(_SC_PAGESIZE) / 1024);
}
/// After a thread has ended, its OpenMP threads end by themselves. This waits for them, but not for
/// long.
std::int64_t threads_left() {
  static std::int64_t before = 1;
  std::int64_t now = entries("/proc/self/task");
  for (int i = 0; i < 20 && now > before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    now = entries("/proc/self/task");
  }
  return before = now;
}
void print_sample(std::int64_t step) {
  const auto threads = threads_left(), files = entries("/proc/self/fd");
  const struct mallinfo2 heap = ::mallinfo2();
  std::printf("%lld %lld %zu %lld %lld\n", static_cast<long long>(step),
              static_cast<long long>(resident_kib()), heap.uordblks + heap.hblkhd,
              static_cast<long long>(files), static_cast<long long>(threads));
  std::fflush(stdout);
}

/// Leaks what it was made for.
class Leak {
 public:
  explicit Leak(std::string what) : what_(std::move(what)) {}
  void after_step() const {
    if (what_ != "bytes") return;
    static volatile char* last = nullptr;
    last = new char[64];
    *last = 1;
  }
  void after_thread() const {
    if (what_ == "descriptor" && ::open("/dev/null", O_RDONLY) < 0) std::abort();
    if (what_ == "thread") std::thread([] { ::pause(); }).detach();
  }

 private:
  std::string what_;
};

/// Does what a program does now and then beside steps: it evaluates with the average, and saves.
void look(Recipe& trainer, const std::string& path) {
  const std::vector<Tokens> batches{batch_of(0)};
  (void)trainer.evaluate(batches);
  trainer.save(path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fputs("soak STEPS EVERY [bytes | descriptor | thread]\n", stderr), 2;
  const std::int64_t steps = std::atoll(argv[1]), every = std::atoll(argv[2]);
  const Leak leak(argc > 3 ? argv[3] : "");
  const std::string path =
      std::filesystem::temp_directory_path() / ("soak_" + std::to_string(::getpid()));
  torch::manual_seed(0);
  Recipe trainer{GPT(config), AdamW{.lr = 1e-4}, CosineAnnealingLR{.T_max = steps}};
  while (trainer.steps() < steps) {
    std::thread([&] {
      do {
        (void)trainer.step(batch_of(trainer.steps())).loss();
        leak.after_step();
      } while (trainer.steps() % every != 0);
      look(trainer, path);
    }).join();
    leak.after_thread();
    print_sample(trainer.steps());
  }
  std::filesystem::remove(path);
  std::_Exit(0);  // a thread that was leaked still runs
}
