// Measures and estimates how much memory of a transformer each choice of Checkpoint saves, and
// measures the time that it takes. Prints a Markdown table; the exit status is 1 if the losses of
// two choices differ or an estimate is not within 5 %.
//   memory_transformer            12 layers, 256 wide, batch 4, length 256
//   memory_transformer --classic  12 layers, 512 wide, batch 32, length 512, ten minutes or more;
// the latter with a smaller batch if the machine has too little memory for that one.
#include <chrono>
#include <cstring>
#include <fstream>
#include <models/gpt.hpp>
#include <optional>

#include "../conditions.hpp"
#include "measure.hpp"

namespace {

using namespace ikebana;

constexpr int timed_steps = 3;

struct Shape {
  GPTConfig config;
  std::int64_t rows;
  GPT model() const { return GPT(config); }
  Tokens batch() const { return random_batch(config, rows, config.context); }
};

/// Returns the bytes that the kernel says it can give without swapping.
std::int64_t available_memory() {
  std::ifstream info("/proc/meminfo");
  std::string name;
  for (std::int64_t kib = 0; info >> name; info.ignore(64, '\n'))
    if (info >> kib; name == "MemAvailable:") return kib * 1024;
  throw Error("memory_transformer: /proc/meminfo has no line MemAvailable.");
}

/// Returns the estimate for meta tensors, so that no batch is allocated to find out that it is too
/// large.
template <class Checkpointing>
Estimate estimated(const Shape& shape) {
  const auto tokens =
      at::empty({shape.rows, shape.config.context}, at::TensorOptions(at::kMeta).dtype(at::kLong));
  return estimate<Trainer<GPT, AdamW, Checkpointing>>([&] { return shape.model(); },
                                                      Tokens{tokens, tokens.clone()});
}

/// Halves the batch until the recipe that takes the most memory fits, by the estimate.
Shape that_fits(Shape shape) {
  const std::int64_t memory = available_memory();
  const auto fits = [&] {
    return static_cast<double>(estimated<Checkpoint<Off>>(shape).peak) <
           0.8 * static_cast<double>(memory);
  };
  const std::int64_t wanted = shape.rows;
  while (!fits() && shape.rows > 1) shape.rows /= 2;
  std::printf("12 layers, %ld wide, batch %ld, length %ld", static_cast<long>(shape.config.width),
              static_cast<long>(shape.rows), static_cast<long>(shape.config.context));
  if (shape.rows != wanted)
    std::printf(
        ": the largest batch whose estimate fits into four fifths of the %s MiB available; "
        "%ld does not",
        bench::mib(memory).c_str(), static_cast<long>(wanted));
  std::puts(".\n");
  return shape;
}

struct Measured {
  bench::Training training;
  double seconds = 0;  // the seconds of a step, without the first one
};
template <class Checkpointing>
Measured train(const Shape& shape) {
  using Clock = std::chrono::steady_clock;
  bridge::MemoryCounter counter(at::kCPU);
  const std::int64_t before = counter.now();
  torch::manual_seed(1);
  const Tokens batch = shape.batch();
  Trainer<GPT, AdamW, Checkpointing> trainer(shape.model());
  Measured result;
  std::vector<double> seconds;
  for (int step = 0; step <= timed_steps; ++step) {
    const auto begin = Clock::now();
    result.training.losses.push_back(trainer.step(batch).loss());
    if (step == 0) counter.reset_peak();
    else seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  result.training.peak = counter.peak() - before;
  result.seconds = bench::median(seconds);
  return result;
}

struct Table {
  Shape shape;
  std::optional<Measured> off = {};
  bool all_hold = true;

  template <class Checkpointing>
  void row(const char* name) {
    const std::int64_t expected = estimated<Checkpointing>(shape).peak;
    const Measured measured = train<Checkpointing>(shape);
    if (!off) off = measured;
    const auto peak = static_cast<double>(measured.training.peak);
    const double ratio = static_cast<double>(expected) / peak;
    const bool same = measured.training.losses == off->training.losses;
    std::printf("| %s | %s | %s | %.4f | %.1f | %.2f | %.2f | %s |\n", name,
                bench::mib(expected).c_str(), bench::mib(measured.training.peak).c_str(), ratio,
                100 * (1 - peak / static_cast<double>(off->training.peak)), measured.seconds,
                measured.seconds / off->seconds, same ? "same bits" : "DIFFERENT");
    std::fflush(stdout);
    all_hold = all_hold && same && std::abs(ratio - 1) <= 0.05;
  }
};

}  // namespace

int main(int argc, char** argv) {
  const bool classic = argc == 2 && std::strcmp(argv[1], "--classic") == 0;
  if (argc > 1 && !classic) return std::fputs("usage: memory_transformer [--classic]\n", stderr), 2;
  bench::print_conditions("", timed_steps);
  std::puts("");
  GPTConfig config{.layers = 12, .width = 256, .heads = 8, .context = 256};
  if (classic) config.width = config.context = 512;
  Table table{that_fits({config, classic ? 32 : 4})};
  std::puts(
      "| recipe | estimated peak, MiB | measured peak, MiB | ratio | saved, % | s per step | "
      "over Off | losses |\n|---|---:|---:|---:|---:|---:|---:|---|");
  table.row<Checkpoint<Off>>("`Checkpoint<Off>`");
  table.row<Checkpoint<Full>>("`Checkpoint<Full>`");
  table.row<Checkpoint<Selective>>("`Checkpoint<Selective>`");
  table.row<Checkpoint<Every<2>>>("`Checkpoint<Every<2>>`");
  table.row<Checkpoint<Segments<4>>>("`Checkpoint<Segments<4>>`");
  return table.all_hold ? 0 : 1;
}
