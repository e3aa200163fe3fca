// Measures what docs/slow.md names: the cost of small batches and microbatches, of a report that is
// printed in each step, of denormal numbers, and of BF16, as ratios of processor time, one thread.
//   slow          the table of ratios
//   slow steps    processor and wall time of a step with the threads of the environment, to compare
//                 builds, numbers of threads and waiting policies
#include <chrono>
#include <ctime>
#include <fstream>
#include <functional>
#include <ikebana.hpp>

#include "conditions.hpp"
#include "models/gpt.hpp"
using namespace ikebana;

namespace {

using Batch = std::pair<at::Tensor, at::Tensor>;

torch::nn::Sequential mlp(std::int64_t width) {
  using namespace torch::nn;
  return Sequential(Linear(16, width), ReLU(), Linear(width, width), ReLU(), Linear(width, 4));
}
Batch rows(std::int64_t n) { return {at::randn({n, 16}), at::randint(4, {n}, at::kLong)}; }

double cpu() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }
double wall() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}
/// Seconds of `now` that one of `times` calls takes.
template <class Clock, class F>
double seconds(Clock now, const F& f, int times) {
  const double begin = now();
  for (int i = 0; i < times; ++i) f();
  return (now() - begin) / times;
}

/// Prints the median over interleaved rounds of the first one's time over the second's.
void compare(const char* first, const char* second, int times, const std::function<void()>& a,
             const std::function<void()>& b) {
  a(), b();
  std::vector<double> ratios;
  for (int round = 0; round < 9; ++round)
    ratios.push_back(seconds(cpu, a, times) / seconds(cpu, b, times));
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  std::printf("| %s | %s | %.2f | %.2f to %.2f |\n", first, second, bench::median(ratios), *least,
              *most);
}

void batches() {
  Trainer one{mlp(64), CrossEntropyLoss{}}, all{mlp(64), CrossEntropyLoss{}};
  Trainer parts{mlp(64), CrossEntropyLoss{}, Accumulate<16>{}};
  const Batch row = rows(1), batch = rows(64), large = rows(1024);
  compare(
      "MLP 3x64: 64 steps of 1 row", "1 step of 64 rows", 10,
      [&] {
        for (int i = 0; i < 64; ++i) one.step(row);
      },
      [&] { all.step(batch); });
  compare(
      "MLP 3x64: 16 steps of 64 rows", "1 step of 1024 rows", 10,
      [&] {
        for (int i = 0; i < 16; ++i) one.step(batch);
      },
      [&] { all.step(large); });
  compare(
      "MLP 3x64, 64 rows: `Accumulate<16>`", "one microbatch", 20, [&] { parts.step(batch); },
      [&] { all.step(batch); });
}

void reports() {
  std::ofstream out("/dev/null");
  Trainer trainer{mlp(16), CrossEntropyLoss{}};
  const Batch batch = rows(32);
  compare(
      "MLP 3x16, 32 rows: each report printed", "none printed", 100,
      [&] { out << trainer.step(batch) << std::endl; }, [&] { trainer.step(batch); });
}

/// Computes roots of denormal numbers, and updates of AdamW that compute with squares of small
/// gradients.
void denormals() {
  const at::Tensor ones = at::ones({1 << 14}), tiny = at::full({1 << 14}, 1e-40);
  const auto scaled = [](auto& run, torch::nn::Linear& model, const Batch& batch) {
    at::Tensor sum = run(model, batch.first).sum();
    return Loss{sum * batch.second, 1};
  };
  const Batch usual{at::ones({1, 512}), at::ones({})},
      small{at::ones({1, 512}), at::full({}, 1e-20)};
  for (const bool flush : {false, true}) {
    at::globalContext().setFlushDenormal(flush);
    Trainer a{torch::nn::Linear(512, 512), scaled}, b{torch::nn::Linear(512, 512), scaled};
    compare(
        flush ? "roots of numbers of 1e-40, flushed" : "roots of numbers of 1e-40", "roots of 1",
        200, [&] { at::sqrt(tiny); }, [&] { at::sqrt(ones); });
    compare(
        flush ? "AdamW, 512 x 512, gradients of 1e-20, flushed"
              : "AdamW, 512 x 512, gradients of 1e-20",
        "gradients of 1", 20, [&] { a.step(small); }, [&] { b.step(usual); });
  }
  at::globalContext().setFlushDenormal(false);
}

void precisions() {
  const GPTConfig config{.layers = 2, .width = 256, .heads = 4, .context = 64};
  const Tokens batch = random_batch(config, 8, 64);
  Trainer full{GPT(config), AdamW{}};
  Trainer half{GPT(config), AdamW{}, Precision<BF16>{}};
  Trainer native{GPT(config), AdamW{}, Precision<BF16>{.cpu_products = CPUProducts::Native}};
  compare(
      "GPT 2x256, 8 x 64: `Precision<BF16>`", "FP32", 1, [&] { half.step(batch); },
      [&] { full.step(batch); });
  compare(
      "the same with LibTorch's kernels for BF16", "FP32", 1, [&] { native.step(batch); },
      [&] { full.step(batch); });
}

void steps(const char* name, int times, const std::function<void()>& step) {
  const double first = seconds(wall, step, 1);
  step();
  std::vector<double> cpus, walls;
  for (int i = 0; i < times; ++i) {
    const double begin = wall();
    cpus.push_back(seconds(cpu, step, 1));
    walls.push_back(wall() - begin);
  }
  std::printf("%s: %.3f ms of processor, %.3f ms, the first %.1f ms\n", name,
              1e3 * bench::median(cpus), 1e3 * bench::median(walls), 1e3 * first);
}

void all_steps() {
  Trainer small{mlp(16), CrossEntropyLoss{}};
  const Batch batch = rows(32);
  steps("MLP 3x16, 32 rows", 400, [&] { small.step(batch); });
  const GPTConfig config{.layers = 2, .width = 256, .heads = 4, .context = 64};
  const Tokens tokens = random_batch(config, 8, 64);
  Trainer gpt{GPT(config), AdamW{}};
  steps("GPT 2x256, 8 x 64", 15, [&] { gpt.step(tokens); });
}

}  // namespace

int main(int argc, char** argv) {
  torch::manual_seed(0);
  if (argc > 1 && std::string(argv[1]) == "steps") {
    bench::print_conditions("", 0);
    all_steps();
    return 0;
  }
  at::set_num_threads(1);
  bench::print_conditions("", 9);
  std::puts("\n| time of | over that of | ratio | of rounds |\n|---|---|---:|---|");
  batches();
  reports();
  denormals();
  precisions();
}
