// Makes a step that runs out of memory, in a program of which this file knows no explanation.
// Prints the error, and what `explain_peak` returns.
#include <ikebana.hpp>
#include <ikebana/memory.hpp>
#include <iostream>

int main() {
  using namespace ikebana;
  torch::nn::Sequential model(torch::nn::Linear(64, 1024), torch::nn::ReLU(),
                              torch::nn::Linear(1024, 64));
  Trainer trainer{model, MSELoss{}, AdamW{}};
  const std::pair batch{at::ones({64, 64}), at::ones({64, 64})};
  try {
    const MemoryLimit limit(512 << 10);
    trainer.step(batch);
    return 1;
  } catch (const OutOfMemory& error) {
    std::cout << error.what() << '\n';
  }
  try {
    std::cout << trainer.explain_peak(batch) << '\n';
  } catch (const Error& error) {
    std::cout << error.what() << '\n';
  }
}
