// ctest:
// The program of README: a model, a batch, a recipe, and training with validation.
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;

struct Points {  // a batch
  at::Tensor input, target;
};

struct BlockImpl : nn::Module {
  nn::Linear up = register_module("up", nn::Linear(32, 64));
  nn::Linear down = register_module("down", nn::Linear(64, 32));
  at::Tensor forward(const at::Tensor& x) { return x + down(at::gelu(up(x))); }
};
TORCH_MODULE(Block);

struct ClassifierImpl : nn::Module {
  using units = Units<Block>;  // the parts that Checkpoint and other policies work on
  nn::Linear embed = register_module("embed", nn::Linear(2, 32));
  Block first = register_module("first", Block()), second = register_module("second", Block());
  nn::Linear head = register_module("head", nn::Linear(32, 2));

  template <class Run>
  Loss loss(Run& run, const Points& batch) {
    at::Tensor x = run(second, run(first, embed(batch.input)));  // policies wrap each unit
    at::Tensor logits = head(x);
    at::Tensor sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum);
    return {.sum = sum, .count = batch.target.numel(), .outputs = logits};
  }
};
TORCH_MODULE(Classifier);

std::vector<Points> batches(int n) {  // do both coordinates have the same sign?
  std::vector<Points> all;
  for (int i = 0; i < n; ++i) {
    at::Tensor points = at::randn({64, 2});
    all.push_back({points, (points.prod(1) > 0).to(at::kLong)});
  }
  return all;
}

int main() {
  torch::manual_seed(0);
  auto training = batches(60), validation = batches(10);
  Trainer trainer{Classifier(), AdamW{.lr = 3e-3}, Precision<BF16>{}, Checkpoint<Full>{},
                  ClipGradNorm{}};
  auto print = [](const Epoch& epoch) {
    std::cout << "epoch " << epoch.epoch << "  loss " << epoch.validation->loss << "  accuracy "
              << (*epoch.validation)["accuracy"] << '\n';
  };
  History history = trainer.fit(
      training, {.epochs = 3, .validate = validation, .metrics = {Accuracy{}}, .on_epoch = print});
  return history.back().validation->loss < 0.2 ? 0 : 1;
}
