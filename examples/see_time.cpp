// ctest: 8
// Shows where the time of a training goes: by phase and by unit, how much of the machine it uses,
// and how long a prediction takes.
//
// Usage: see_time [steps]
#include <torch/torch.h>

#include <cstdlib>
#include <ikebana.hpp>
#include <ikebana/observe.hpp>
#include <iostream>

#include "models/gpt.hpp"
using namespace ikebana;

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 50;
  const GPTConfig config{.layers = 4, .width = 128, .heads = 4, .context = 64};
  const Tokens batch = random_batch(config, 8, config.context);

  Trainer trainer{GPT(config), AdamW{.lr = 3e-4}, Checkpoint<Every<2>>{}, Observe<Phases>{},
                  Observe<Throughput>{}};
  for (int i = 0; i < steps; ++i) {
    const Report report = trainer.step(batch);
    if (i + 1 == steps) std::cout << report << '\n';
  }
  std::cout << trainer.mechanism<Observe<Phases>>().summary();

  Trainer by_unit{GPT(config), AdamW{.lr = 3e-4}, Observe<EachUnit>{}};
  for (int i = 0; i < steps; ++i) by_unit.step(batch);
  const UnitSummary units = by_unit.mechanism<Observe<EachUnit>>().summary();
  std::cout << units << units.flame_graph()
            << "predict: " << measure_latency(trainer, batch, {.iterations = 20}) << '\n';
  return units.steps > 0 ? 0 : 1;
}
