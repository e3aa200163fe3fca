// ctest:
// A policy of your own: before the update, subtracts from each row of a matrix's gradient its mean.
// Source: Yong et al., Gradient Centralization, arXiv:2004.01461.
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>

// The policy, which users write in a recipe: its axis and its values.
struct CentralizeGradients {
  using axis = ikebana::axis::clip;
  std::int64_t min_dim = 2;
};

// Its mechanism overrides the hooks of its axis that it needs; hooks.hpp has a base for each axis.
template <>
struct ikebana::Mechanism<CentralizeGradients> : ikebana::ClipHooks {
  CentralizeGradients values;
  explicit Mechanism(CentralizeGradients v) : values(v) {
    if (v.min_dim < 2) throw BadValue("CentralizeGradients: min_dim must be 2 or more.");
  }
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks&) {
    for (at::Tensor& gradient : gradients.values) {
      if (gradient.dim() < values.min_dim) continue;
      at::Tensor rows = gradient.flatten(1);
      gradient = (rows - rows.mean(1, /*keepdim=*/true)).view_as(gradient);
    }
  }
  std::string describe() const { return "min_dim=" + std::to_string(values.min_dim); }
};

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(16, 64), torch::nn::ReLU(),
                              torch::nn::Linear(64, 1));
  ikebana::Trainer trainer{model, ikebana::MSELoss{}, ikebana::SGD{.lr = 0.05, .momentum = 0.9},
                           CentralizeGradients{}};
  std::cout << trainer.describe();
  at::Tensor before = model->parameters()[0].mean(1).clone();

  at::Tensor x = at::randn({256, 16}), y = x.square().mean(1, true);
  double first = trainer.step({x, y}).loss(), last = first;
  for (int i = 0; i < 200; ++i) last = trainer.step({x, y}).loss();
  double moved = (model->parameters()[0].mean(1) - before).abs().max().item<double>();
  std::cout << "loss " << first << " -> " << last << "; the mean of a row moved by " << moved
            << '\n';
  return last < first / 4 && moved < 1e-5 ? 0 : 1;
}
