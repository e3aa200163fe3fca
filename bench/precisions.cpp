// Measures the time of a step in each precision over that in FP32: medians of interleaved rounds,
// one thread. FP8 is left out: its products take far longer on a CPU. Writes a Markdown table.
#include <chrono>
#include <cstdio>
#include <functional>
#include <models/gpt.hpp>

#include "conditions.hpp"

namespace {

using namespace ikebana;

struct Contestant {
  const char* policy;
  std::function<void(const Tokens&)> step;
  std::vector<double> ratios = {};
};

template <class P>
Contestant in(const char* policy, const GPTConfig& config) {
  torch::manual_seed(1);
  auto trainer = std::make_shared<Trainer<GPT, AdamW, P>>(GPT(config));
  return {policy, [trainer](const Tokens& batch) { trainer->step(batch); }};
}

double seconds(const std::function<void()>& work) {
  auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void measure(const char* name, const GPTConfig& config, std::int64_t rows, int rounds) {
  std::vector<Contestant> all = {in<Precision<FP32>>("FP32", config),
                                 in<Precision<BF16>>("BF16", config),
                                 in<Precision<BF16Weights>>("BF16Weights", config),
                                 in<Precision<BF16True>>("BF16True", config)};
  at::Tensor text = at::randint(256, {rows, config.context + 1});
  Tokens batch{text.slice(1, 0, -1).contiguous(), text.slice(1, 1).contiguous()};
  for (auto& contestant : all) contestant.step(batch);  // allocates the optimizer's state
  for (int round = 0; round < rounds; ++round) {
    double fp32 = 0;
    for (auto& contestant : all) {
      double time = seconds([&] { contestant.step(batch); });
      if (&contestant == &all[0]) fp32 = time;
      contestant.ratios.push_back(time / fp32);
    }
  }
  for (auto& contestant : all)
    std::printf("| %s | %s | %.2f |\n", name, contestant.policy, bench::median(contestant.ratios));
}

}  // namespace

int main() {
  at::set_num_threads(1);
  std::puts("| model | precision | time over FP32 |\n|---|---|---:|");
  measure("GPT 4x128, 12 x 64", {}, 12, 9);
  measure("GPT 2x384, 4 x 128", {.layers = 2, .width = 384, .heads = 6, .context = 128}, 4, 5);
}
