// Runs the training loop: a model, a loss, an optimizer, a schedule, clipping; and an evaluation.
#include <cmath>
#include <numbers>

#include "side_by_side.hpp"

namespace training_loop {

using namespace ikebana;
namespace nn = torch::nn;

nn::Sequential by_hand(const std::vector<Rows>& loader) {
  nn::Sequential model = net();
  torch::optim::AdamW optimizer(model->parameters(), 1e-2);
  for (std::size_t step = 0; step < loader.size(); ++step) {
    double lr = 1e-2 * (1 + std::cos(std::numbers::pi * double(step) / 40)) / 2;
    for (auto& group : optimizer.param_groups()) group.options().set_lr(lr);
    optimizer.zero_grad();
    at::Tensor output = model->forward(loader[step].input);
    at::Tensor loss = nn::functional::cross_entropy(output, loader[step].target);
    loss.backward();
    nn::utils::clip_grad_norm_(model->parameters(), 0.5);
    optimizer.step();
  }
  return model;
}

double evaluated_by_hand(nn::Sequential model, const std::vector<Rows>& loader) {
  model->eval();
  at::NoGradGuard no_grad;
  double sum = 0, count = 0;
  for (const Rows& batch : loader) {
    at::Tensor output = model->forward(batch.input);
    sum += at::cross_entropy_loss(output, batch.target, {}, at::Reduction::Sum).item<double>();
    count += double(batch.target.numel());
  }
  model->train();
  return sum / count;
}

TEST_CASE("from PyTorch: the training loop") {
  std::vector<Rows> loader = some_batches(40);
  nn::Sequential model = net();

  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}, CosineAnnealingLR{.T_max = 40},
                  ClipGradNorm{.max_norm = 0.5}};
  for (const Rows& batch : loader) trainer.step(batch);

  nn::Sequential hand_model = by_hand(loader);
  same_end("training_loop", model->parameters(), hand_model->parameters(), net()->parameters());

  double loss = trainer.evaluate(loader).loss;

  CHECK(loss == doctest::Approx(evaluated_by_hand(hand_model, loader)).epsilon(1e-4));
}

TEST_CASE("from PyTorch: a loss of your own") {
  std::vector<Rows> loader = some_batches(40);
  nn::Sequential model = net(), other = net();

  auto objective = [](auto& run, nn::Sequential& net, const Rows& batch) {
    at::Tensor output = run(net, batch.input);
    at::Tensor sum = at::cross_entropy_loss(output, batch.target, {}, at::Reduction::Sum);
    return Loss{sum, batch.target.numel()};
  };
  Trainer trainer{model, objective, AdamW{.lr = 1e-2}};

  Trainer known{other, CrossEntropyLoss{}, AdamW{.lr = 1e-2}};
  for (const Rows& batch : loader) trainer.step(batch), known.step(batch);
  CHECK(test::same_bits(model->parameters(), other->parameters()));
}

}  // namespace training_loop
