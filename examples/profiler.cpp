// Profiles three steps of a small GPT: which operators, units and phases take the time.
//   profiler [folder for a trace]
// ctest:
#include <torch/torch.h>

#include <ikebana.hpp>
#include <ikebana/observe/profile.hpp>
#include <iostream>

#include "models/gpt.hpp"

using namespace ikebana;

int main(int count, char** arguments) {
  torch::manual_seed(0);
  const GPTConfig config{.layers = 2, .width = 64, .heads = 4, .context = 32};
  Observe<Profile> profile{.wait = 1,
                           .warmup = 1,
                           .active = 3,
                           .repeat = 1,
                           .record_shapes = true,
                           .profile_memory = true,
                           .with_flops = true};
  if (count > 1) profile.folder = arguments[1];
  Trainer trainer{GPT(config), AdamW{.lr = 1e-3}, ClipGradNorm{}, profile};
  for (int step = 0; step < 6; ++step) {
    const Range range("a step and its batch");
    trainer.step(random_batch(config, 8, 32));
  }

  const ProfileResult& result = trainer.mechanism<Observe<Profile>>().result();
  std::cout << result << '\n'
            << result.key_averages({.by_unit = true})
                   .table({.sort_by = &ProfileRow::self_cpu_time_total, .rows = 6});
  for (const std::string& file : result.files) std::cout << "wrote " << file << '\n';
  return result.steps == 3 ? 0 : 1;
}
