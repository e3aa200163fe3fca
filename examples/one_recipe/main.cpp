// Trains by a recipe that another file compiles.
#include <iostream>

#include "recipe.hpp"

int main() {
  torch::manual_seed(0);
  Recipe trainer = make_recipe();
  std::vector<Points> batches = draw(200);
  const ikebana::FitOptions<Points> options{.epochs = 2};
  const ikebana::History history = trainer.fit(batches, options);
  const ikebana::Report report = trainer.step(batches[0]);
  std::cout << "loss " << history.back().loss << ", then " << report.loss() << '\n';
  return report.loss() < 0.2 ? 0 : 1;
}
