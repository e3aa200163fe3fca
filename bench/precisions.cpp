// Measures the time of a step and of an evaluation in each precision over that in FP32: medians of
// interleaved rounds of processor time, one thread. FP8 is left out: its products take far longer
// on a CPU. Writes a Markdown table, and whether products of 16 bits keep their bound on a
// processor without the instructions; `precisions native` measures LibTorch's own kernels there,
// too.
#include <cmath>
#include <cstdio>
#include <ctime>
#include <functional>
#include <models/gpt.hpp>
#include <models/lstm.hpp>
#include <models/resnet.hpp>
#include <string_view>

#include "conditions.hpp"

namespace {

using namespace ikebana;

constexpr double bound = 1.5;  // the bound over FP32's time, without instructions for 16 bits

struct Contestant {
  const char* policy;
  std::function<double()> step;      // returns the loss
  std::function<double()> evaluate;  // the same
  std::vector<double> steps = {}, evaluations = {};
  double loss = 0;
};

template <class Model, class P, class Batch>
Contestant in(const char* policy, const auto& config, const Batch& batch, P precision) {
  torch::manual_seed(1);
  auto trainer = std::make_shared<Trainer<Model, AdamW, P>>(Model(config), precision);
  return {policy, [trainer, batch] { return trainer->step(batch).loss(); },
          [trainer, batch] { return trainer->evaluate(std::vector<Batch>{batch}).loss; }};
}

double seconds(const std::function<double()>& work) {
  const std::clock_t begin = std::clock();
  work();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

/// Returns false if a precision of 16 bits takes longer than the bound.
template <class Model>
bool measure(const char* name, const auto& config, std::int64_t rows, std::int64_t size, int rounds,
             bool native) {
  torch::manual_seed(2);
  const auto batch = random_batch(config, rows, size);
  auto make = [&](const char* policy, auto precision) {
    return in<Model>(policy, config, batch, precision);
  };
  std::vector<Contestant> all = {make("FP32", Precision<FP32>{}), make("BF16", Precision<BF16>{}),
                                 make("BF16Weights", Precision<BF16Weights>{}),
                                 make("BF16True", Precision<BF16True>{}),
                                 make("FP16", Precision<FP16>{.init_scale = 1024})};
  if (native)
    all.push_back(make("BF16, native", Precision<BF16>{.cpu_products = CPUProducts::Native}));
  for (auto& one : all) one.step(), one.evaluate();  // allocates the optimizer's state
  for (int round = 0; round < rounds; ++round)
    for (auto& one : all) {
      one.steps.push_back(seconds([&] { return one.loss = one.step(); }) /
                          (&one == &all[0] ? 1 : all[0].steps.back()));
      one.evaluations.push_back(seconds(one.evaluate) /
                                (&one == &all[0] ? 1 : all[0].evaluations.back()));
    }
  bool holds = true;
  for (const auto& one : all) {
    if (&one == &all[0]) continue;
    const double step = bench::median(one.steps), evaluation = bench::median(one.evaluations);
    std::printf("| %s | %s | %.2f | %.2f |\n", name, one.policy, step, evaluation);
    if (!(std::abs(one.loss - all[0].loss) < 0.05 * std::abs(all[0].loss)))
      std::printf("%s in %s: loss %g, in FP32 %g\n", name, one.policy, one.loss, all[0].loss);
    if (std::string_view(one.policy) != "BF16, native") holds = holds && step <= bound;
  }
  return holds;
}

}  // namespace

int main(int count, char** words) {
  at::set_num_threads(1);
  const bool native = count > 1 && std::string_view(words[1]) == "native";
  bench::print_conditions("", 7);
  std::puts("\n| model | precision | step over FP32 | evaluation |\n|---|---|---:|---:|");
  bool holds = measure<GPT>("GPT 4x128, 12 x 64", GPTConfig{}, 12, 64, 7, native);
  holds &= measure<GPT>("GPT 2x384, 4 x 128",
                        GPTConfig{.layers = 2, .width = 384, .heads = 6, .context = 128}, 4, 128, 5,
                        native);
  holds &= measure<ResNet>("ResNet-20, 16 x 32 x 32", ResNetConfig{}, 16, 32, 3, native);
  holds &= measure<LSTMLanguageModel>("LSTM 2x256, 16 x 32", LSTMConfig{}, 16, 32, 7, false);
  const bool has = bridge::has_native_products(at::kBFloat16);
  std::printf("\nproducts of 16 bits in FP32, at most %.1f of FP32's time: %s\n", bound,
              has     ? "not run, this processor has instructions for BF16"
              : holds ? "holds"
                      : "does not hold");
}
