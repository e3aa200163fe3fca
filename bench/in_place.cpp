// Measures what an InPlaceChecker costs: the step of a small GPT, of which operators are short,
// with it over the step without. Interleaved, one thread; the losses must be the same.
#include <chrono>
#include <cstdio>
#include <ikebana/memory/in_place.hpp>
#include <optional>

#include "conditions.hpp"
#include "models/gpt.hpp"

namespace {

using namespace ikebana;
using Clock = std::chrono::steady_clock;

constexpr int rounds = 41;

struct Contestant {
  const char* name;
  std::optional<OnWrite> on_write;
  Trainer<GPT, AdamW> trainer;
  std::vector<double> seconds = {}, ratios = {};
  double loss = 0;

  void step(const Tokens& tokens) {
    const auto begin = Clock::now();
    std::optional<InPlaceChecker> checker;
    if (on_write) checker.emplace(InPlaceOptions{*on_write});
    loss = trainer.step(tokens).loss();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
};

}  // namespace

int main() {
  at::set_num_threads(1);
  bench::print_conditions("", rounds);
  const GPTConfig config{.layers = 4, .width = 64, .heads = 4, .context = 16};
  auto trainer = [&] {
    torch::manual_seed(0);
    return Trainer<GPT, AdamW>(GPT(config), AdamW{});
  };
  std::vector<Contestant> all;
  all.push_back({"without", std::nullopt, trainer()});
  all.push_back({"InPlaceChecker", OnWrite::Nothing, trainer()});
  all.push_back({"InPlaceChecker that throws at writes", OnWrite::Throw, trainer()});
  torch::manual_seed(1);
  const Tokens tokens = random_batch(config, 4, 16);
  bool same = true;
  for (int i = 0; i < rounds; ++i)
    for (Contestant& one : all) {
      one.step(tokens);
      one.ratios.push_back(one.seconds.back() / all[0].seconds.back());
      same &= one.loss == all[0].loss;
    }
  std::printf("\n| step of a GPT 4x64, 4x16 tokens | ms | over the first |\n|---|---:|---:|\n");
  for (const Contestant& one : all)
    std::printf("| %s | %.2f | %.2f |\n", one.name, 1e3 * bench::median(one.seconds),
                bench::median(one.ratios));
  if (!same) std::printf("OTHER LOSSES\n");
  return same ? 0 : 1;
}
