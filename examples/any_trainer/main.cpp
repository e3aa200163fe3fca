// Trains with the recipe that the command line names, by default `plain`. Each recipe is compiled
// in a file of its own, so a change of one compiles that file only, and this file compiles none.
#include <ikebana/any_trainer/recipes.hpp>
#include <iostream>

#include "recipes.hpp"

int main(int argc, char** argv) try {
  ikebana::Recipes<Rows, const Config&> recipes;
  recipes.add("plain", plain).add("averaged", averaged).add("mixed", mixed);

  torch::manual_seed(0);
  AnyRecipe trainer = recipes.make(argc > 1 ? argv[1] : "plain", Config{.width = 64});
  std::cout << trainer.describe();
  ikebana::Report report;
  for (int step = 0; step < 300; ++step) {
    at::Tensor points = at::randn({64, 2}), same_sign = (points.prod(1) > 0).to(at::kLong);
    report = trainer.step({points, same_sign});
    if (step % 60 == 0) std::cout << report << '\n';
  }
  at::Tensor points = at::randn({512, 2});
  std::vector<Rows> unseen{{points, (points.prod(1) > 0).to(at::kLong)}};
  double accuracy = trainer.evaluate(unseen, ikebana::Accuracy{})["accuracy"];
  std::cout << "accuracy " << accuracy << '\n';
  return accuracy > 0.9 ? 0 : 1;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 2;
}
