// Early stopping: train until the accuracy on other data has not risen for three epochs, then
// restore the best state.
#include "side_by_side.hpp"
#include "state/folder.hpp"

namespace early_stopping {

using namespace ikebana;
namespace nn = torch::nn;

double accuracy_by_hand(nn::Sequential& model, const std::vector<Rows>& validation) {
  model->eval();
  at::NoGradGuard no_grad;
  double hits = 0, seen = 0;
  for (const Rows& batch : validation) {
    hits += (model->forward(batch.input).argmax(1) == batch.target).sum().item<double>();
    seen += double(batch.target.numel());
  }
  model->train();
  return hits / seen;
}

struct Training {
  std::vector<at::Tensor> best;
  double accuracy = 0;
  int epochs = 0;
};
Training by_hand(const std::vector<Rows>& training, const std::vector<Rows>& validation) {
  nn::Sequential model = net();
  torch::optim::AdamW optimizer(model->parameters(), 3e-3);
  Training result;
  for (int since_best = 0; since_best < 3; ++result.epochs) {
    for (const Rows& batch : training) {
      optimizer.zero_grad();
      at::cross_entropy_loss(model->forward(batch.input), batch.target).backward();
      optimizer.step();
    }
    double accuracy = accuracy_by_hand(model, validation);
    ++since_best;
    if (accuracy <= result.accuracy) continue;
    result.accuracy = accuracy, since_best = 0, result.best.clear();
    for (at::Tensor& p : model->parameters()) result.best.push_back(p.detach().clone());
  }
  return result;
}

TEST_CASE("from PyTorch: early stopping with a metric") {
  std::vector<Rows> all = some_batches(24), training(all.begin(), all.begin() + 8),
                    validation(all.begin() + 8, all.end());
  nn::Sequential model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 3e-3}};

  const test::Folder temporary;
  const std::filesystem::path folder = temporary / "run";

  EarlyStopping rule{.metric = "accuracy", .mode = EarlyStopping::max, .patience = 3};
  KeepBest best{.metric = "accuracy", .mode = KeepBest::max};
  History history = trainer.fit(training, {.epochs = 1000,
                                           .validate = validation,
                                           .metrics = {Accuracy{}},
                                           .early_stopping = rule,
                                           .save_to = folder,
                                           .keep_best = best,
                                           .resume = true});
  trainer.load(folder / "best.safetensors", ignore_parts);

  Training hand = by_hand(training, validation);
  same_end("early_stopping", model->parameters(), hand.best, net()->parameters());
  CHECK((*history[history.size() - 4].validation)["accuracy"] == hand.accuracy);
  CHECK(history.size() == std::size_t(hand.epochs));
  CHECK(hand.epochs > 4);  // it got better after the first epoch
  CHECK(trainer.steps() == 8 * (hand.epochs - 3));
}

}  // namespace early_stopping
