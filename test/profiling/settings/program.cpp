// Trains wide products, profiles that, and prints the advice, for settings.py, which starts it
// with environments that make it slow. Usage: program fp32|bf16 [try]
#include <ikebana.hpp>
#include <ikebana/observe.hpp>
#include <ikebana/profiling.hpp>
#include <iostream>

namespace {

using namespace ikebana;

struct WideImpl : torch::nn::Module {
  at::Tensor forward(at::Tensor x) {
    for (int i = 0; i < 3; ++i) x = x.mm(weight.to(x.scalar_type())).relu();
    return last(x);
  }
  at::Tensor weight = at::randn({768, 768}) / 28;
  torch::nn::Linear last = register_module("last", torch::nn::Linear(768, 8));
};
TORCH_MODULE(Wide);

/// Prints the time of a step, and a line for each piece of advice: its name, its change, what was
/// measured of it, and its finding, with tabs between them.
template <class Number>
void profile(const Number& precision, std::int64_t rows, bool tries) {
  torch::manual_seed(0);
  std::vector<std::pair<at::Tensor, at::Tensor>> batches{
      {at::randn({rows, 768}), at::randint(8, {rows}, at::kLong)}};
  Trainer trainer{Wide(), CrossEntropyLoss{}, SGD{.lr = 1e-3}, Observe<Phases>{}, precision};
  // So many steps that a moment in which another program runs leads to no advice.
  ProfileRunOptions options{.warmup = 2, .steps = 60};
  options.tries_advice = tries;
  const RunProfile found = profile_run(trainer, batches, {}, options);
  std::cout << found.step.mean << '\n';
  for (const Advice& advice : found.advice)
    std::cout << advice.name << '\t' << advice.change << '\t' << advice.measured_gain.value_or(-1)
              << '\t' << advice.finding << ", " << advice.expected_gain.value_or(-1) << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) return 1;
  // With few rows the conversions of weights take a large part of the time.
  if (arguments[0] == "bf16") profile(Precision<BF16>{}, 32, false);
  else profile(Precision<FP32>{}, 256, arguments.size() > 1);
  return 0;
}
