// This is the file that compiles the recipe.
#include "recipe.hpp"
namespace nn = torch::nn;

template ikebana::Report Recipe::step(const Points&);
template ikebana::History Recipe::fit(std::vector<Points>&, const ikebana::FitOptions<Points>&);

Recipe make_recipe() {
  nn::Sequential model(nn::Linear(2, 32), nn::ReLU(), nn::Linear(32, 2));
  return Recipe{model, ikebana::AdamW{.lr = 1e-2}};
}

std::vector<Points> draw(int batches) {
  std::vector<Points> all;
  for (int i = 0; i < batches; ++i) {
    at::Tensor points = at::randn({64, 2});
    all.push_back({points, (points.prod(1) > 0).to(at::kLong)});
  }
  return all;
}
