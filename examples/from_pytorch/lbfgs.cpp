// Trains by LBFGS: steps of AdamW on batches, then an optimizer that computes the loss several
// times.
#include "side_by_side.hpp"

namespace lbfgs {

using namespace ikebana;
namespace nn = torch::nn;

Rows joined(const std::vector<Rows>& loader) {
  std::vector<at::Tensor> inputs, targets;
  for (const Rows& batch : loader) inputs.push_back(batch.input), targets.push_back(batch.target);
  return {at::cat(inputs), at::cat(targets)};
}

void by_lbfgs(nn::Sequential& model, const Rows& all) {
  using Options = torch::optim::LBFGSOptions;
  torch::optim::LBFGS optimizer(model->parameters(), Options(0.5).max_iter(6));
  optimizer.step([&] {
    optimizer.zero_grad();
    at::Tensor loss = at::cross_entropy_loss(model->forward(all.input), all.target);
    loss.backward();
    return loss;
  });
}

std::vector<at::Tensor> by_hand(const std::vector<Rows>& loader) {
  nn::Sequential model = net();
  torch::optim::AdamW optimizer(model->parameters(), 1e-2);
  for (const Rows& batch : loader) {
    optimizer.zero_grad();
    at::cross_entropy_loss(model->forward(batch.input), batch.target).backward();
    optimizer.step();
  }
  by_lbfgs(model, joined(loader));
  return model->parameters();
}

TEST_CASE("from PyTorch: LBFGS after a training") {
  std::vector<Rows> loader = some_batches(20);
  nn::Sequential model = net();
  Rows all = joined(loader);

  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}};
  for (const Rows& batch : loader) trainer.step(batch);
  trainer.replace_weights([&](nn::Sequential& whole) { by_lbfgs(whole, all); });

  same_end("lbfgs", model->parameters(), by_hand(loader), net()->parameters());
  trainer.step(loader[0]);  // from where it ended
  CHECK(trainer.steps() == 21);
}

}  // namespace lbfgs
