// ctest:
// Shows where the memory of a training goes: by phase and by unit, as a page for a browser, and as
// a snapshot for PyTorch's tools; a leak, and where it was made.
//
// Usage: see_memory [folder], in which memory.html and memory.pickle are written.
#include <torch/torch.h>

#include <filesystem>
#include <ikebana.hpp>
#include <ikebana/estimate.hpp>
#include <ikebana/memory.hpp>
#include <iostream>

#include "models/gpt.hpp"
using namespace ikebana;

int main(int argc, char** argv) {
  const std::filesystem::path folder =
      argc > 1 ? argv[1] : std::filesystem::temp_directory_path() / "see_memory";
  std::filesystem::create_directories(folder);
  const GPTConfig config{.layers = 4, .width = 64, .heads = 4, .context = 64};
  const Tokens batch = random_batch(config, 8, config.context);

  MemoryHistory history;
  Trainer trainer{GPT(config), AdamW{}, Checkpoint<Full>{}, Observe<Memory>{.by_unit = true}};
  for (int i = 0; i < 3; ++i) {
    MemoryScope scope("step " + std::to_string(i));
    const Report report = trainer.step(batch);
    std::cout << scope.text() << '\n';
    if (i == 2) std::cout << *report.memory;
  }
  save_memory_page(folder / "memory.html", history);
  save_memory_snapshot(folder / "memory.pickle", history);

  LeakFinder leaks;
  std::vector<at::Tensor> losses;
  for (int i = 0; i < 3; ++i) {
    MemoryScope scope("the loop over losses");
    losses.push_back(trainer.step(batch).mean());
  }
  std::cout << "kept: " << leaks.text() << memory_summary() << trainer.explain_peak(batch) << '\n';
  losses.clear();
  return leaks.leaks().empty() ? 0 : 1;
}
