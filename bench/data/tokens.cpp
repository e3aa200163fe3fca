// Measures TokenFiles, one thread: batches of windows that begin anywhere in a file of 50 million
// tokens, beside memcpy of tensors as large from a file's pages in the system's cache; and steps of
// a GPT of 4 layers, 128 wide, that take batches of a loader with one worker, beside steps on one
// batch that is there. Checks that both see the same tokens. Writes Markdown tables of medians of
// interleaved rounds.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <ikebana.hpp>
#include <ikebana/data.hpp>
#include <ikebana/posix/file_map.hpp>

#include "../../examples/models/gpt.hpp"
#include "../conditions.hpp"

namespace {

using namespace ikebana;
namespace fs = std::filesystem;

constexpr std::int64_t tokens = 50'000'000;

template <class F>
double seconds(const F& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A file of 16 bits per token, and one of 64 with the same tokens.
struct MadeFiles {
  fs::path folder = fs::temp_directory_path() / "ikebana_bench_tokens";
  MadeFiles() {
    fs::create_directories(folder);
    write<std::uint16_t>("narrow.bin"), write<std::int64_t>("wide.bin");
  }
  ~MadeFiles() { fs::remove_all(folder); }
  template <class Integer>
  void write(const char* name) const {
    std::ofstream file(folder / name, std::ios::binary);
    std::vector<Integer> part(1'000'000);
    for (std::int64_t begin = 0; begin < tokens; begin += std::ssize(part)) {
      for (std::int64_t i = 0; i < std::ssize(part); ++i)
        part[std::size_t(i)] = Integer((begin + i) * 2654435761 >> 7 & 255);
      file.write(reinterpret_cast<const char*>(part.data()),
                 std::streamsize(part.size() * sizeof(Integer)));
    }
  }
};

/// Copies windows as the loader makes them, of tokens that have 64 bits already.
TokenBatch copied(const ikebana::detail::FileMap& map, const Permutation& order, std::int64_t first,
                  std::int64_t rows, std::int64_t length) {
  TokenBatch batch{at::empty({rows, length}, at::kLong), at::empty({rows, length}, at::kLong)};
  const auto bytes = std::size_t(length) * 8;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto at = std::uint64_t(order[first + row]) * 8;
    std::memcpy(batch.input.mutable_data_ptr<std::int64_t>() + row * length, map.bytes(at, bytes),
                bytes);
    std::memcpy(batch.target.mutable_data_ptr<std::int64_t>() + row * length,
                map.bytes(at + 8, bytes), bytes);
  }
  return batch;
}

bool compare_with_memcpy(const MadeFiles& files, std::int64_t length, std::int64_t rows) {
  constexpr int rounds = 9, batches = 500;
  const TokenFiles data{files.folder / "narrow.bin", {.length = length, .stride = 1}};
  DataLoader loader{data, {.batch_size = rows, .shuffle = true}};
  const ikebana::detail::FileMap map(files.folder / "wide.bin");
  const Permutation order(data.size(),
                          ikebana::detail::key(0, 0, ikebana::detail::RngStream::Order));
  loader.seek({0, 0});
  const TokenBatch by_loader = *loader.begin(), by_copy = copied(map, order, 0, rows, length);
  if (!by_loader.input.equal(by_copy.input) || !by_loader.target.equal(by_copy.target))
    return std::puts("the batches differ"), false;
  std::vector<double> ratios, times;
  for (int round = 0; round < rounds; ++round) {
    const double copying = seconds([&] {
      for (int i = 0; i < batches; ++i) copied(map, order, i * rows, rows, length);
    });
    const double loading = seconds([&] {
      loader.seek({0, 0});
      for (auto& batch : loader) {
        (void)batch;
        if (loader.position().batch == batches) break;
      }
    });
    ratios.push_back(copying / loading), times.push_back(loading / batches);
  }
  std::printf("| %ld x %ld | %.1f us | %.2f |\n", rows, length, 1e6 * bench::median(times),
              bench::median(ratios));
  return true;
}

/// Returns the time of steps with a loader over the time of steps without, each of 30 steps.
double step_ratio(const MadeFiles& files) {
  constexpr int rounds = 7, steps = 30;
  const TokenFiles data{files.folder / "narrow.bin", {.length = 64, .stride = 1}};
  DataLoader loader{data, {.batch_size = 12, .shuffle = true, .num_workers = 1}};
  torch::manual_seed(1);
  Trainer trainer{GPT(GPTConfig()), AdamW{.lr = 1e-4}};
  const TokenBatch first = *loader.begin();
  const Tokens one{first.input, first.target};
  trainer.step(one);
  std::vector<double> ratios;
  auto batch = loader.begin();
  for (int round = 0; round < rounds; ++round) {
    const double without = seconds([&] {
      for (int i = 0; i < steps; ++i) trainer.step(one);
    });
    const double with = seconds([&] {
      for (int i = 0; i < steps; ++i, ++batch)
        trainer.step(Tokens{(*batch).input, (*batch).target});
    });
    ratios.push_back(with / without);
  }
  return bench::median(ratios);
}

}  // namespace

int main() {
  at::set_num_threads(1);
  const MadeFiles files;
  bench::print_conditions("", 9);
  std::puts("\n| batch | a batch | memcpy's time over the loader's |\n|---|---:|---:|");
  for (const std::int64_t length : {256, 1024})
    for (const std::int64_t rows : {12, 64})
      if (!compare_with_memcpy(files, length, rows)) return 1;
  std::printf("\nA step with the loader over a step without: %.3f\n", step_ratio(files));
}
