// ctest:
// Trains from LibTorch's own data loader, with validation, a metric and early stopping.
#include <torch/torch.h>

#include <algorithm>
#include <ikebana.hpp>
#include <iostream>
#include <limits>
using namespace ikebana;
namespace data = torch::data;

/// Points on two spirals; the target is the spiral that a point lies on.
struct Spirals : data::datasets::Dataset<Spirals> {
  explicit Spirals(std::int64_t n) : kind(at::randint(2, {n}, at::kLong)) {
    at::Tensor turn = at::rand({n}).sqrt() * 6, angle = turn + kind * 3.14159265;
    points = at::stack({turn * angle.cos(), turn * angle.sin()}, 1) / 3 + 0.05 * at::randn({n, 2});
  }
  data::Example<> get(std::size_t i) override {
    auto row = static_cast<std::int64_t>(i);
    return {points[row], kind[row]};
  }
  std::optional<std::size_t> size() const override {
    return static_cast<std::size_t>(kind.numel());
  }
  at::Tensor kind, points;
};

template <class Sampler>
auto loader(std::int64_t points) {
  return data::make_data_loader<Sampler>(Spirals(points).map(data::transforms::Stack<>()), 64);
}

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential model(torch::nn::Linear(2, 64), torch::nn::Tanh(),
                              torch::nn::Linear(64, 64), torch::nn::Tanh(),
                              torch::nn::Linear(64, 2));
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 5e-3}, ClipGradNorm{}};
  auto training = loader<data::samplers::RandomSampler>(2048);
  auto validation = loader<data::samplers::SequentialSampler>(512);

  double best = std::numeric_limits<double>::infinity();
  int since_best = 0;
  auto watch = [&](const Epoch& epoch) {
    since_best = epoch.validation->loss < best ? 0 : since_best + 1;
    best = std::min(best, epoch.validation->loss);
    std::cout << "epoch " << epoch.epoch << "  loss " << epoch.loss << "  validation "
              << epoch.validation->loss << "  accuracy " << (*epoch.validation)["accuracy"] << '\n';
  };
  auto enough = [&] { return since_best == 5; };
  History history = trainer.fit(training, {.epochs = 60,
                                           .validate = validation,
                                           .metrics = {Accuracy{}},
                                           .on_epoch = watch,
                                           .stop = enough});

  std::cout << "stopped after " << history.size() << " of 60 epochs\n";
  return best < history[0].validation->loss / 3 && history.size() < 60 ? 0 : 1;
}
