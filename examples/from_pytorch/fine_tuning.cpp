// Fine-tuning: a backbone that is frozen for ten steps and then learns ten times slower than the
// head; its batch norm keeps its pretrained statistics.
#include "side_by_side.hpp"

namespace fine_tuning {

using namespace ikebana;
namespace nn = torch::nn;

struct ClassifierImpl : nn::Module {
  nn::Sequential backbone{nn::Linear(4, 16), nn::BatchNorm1d(16), nn::ReLU()};
  nn::Linear head{16, 3};
  ClassifierImpl() { register_module("backbone", backbone), register_module("head", head); }
  at::Tensor forward(const at::Tensor& x) { return head(backbone->forward(x)); }
};
TORCH_MODULE(Classifier);

Classifier pretrained() {
  torch::manual_seed(1);
  Classifier model;
  model->forward(at::randn({32, 4}));  // gives the batch norm its statistics
  return model;
}

void set_trained(nn::Module& module, bool trained) {
  for (at::Tensor& p : module.parameters()) p.requires_grad_(trained);
}

Classifier by_hand(const std::vector<Rows>& loader) {
  Classifier model = pretrained();
  set_trained(*model->backbone, false);
  model->backbone->eval();
  using Options = torch::optim::AdamWOptions;
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(model->backbone->parameters(), std::make_unique<Options>(1e-3));
  groups.emplace_back(model->head->parameters(), std::make_unique<Options>(1e-2));
  torch::optim::AdamW optimizer(groups, Options(1e-2));
  for (std::size_t step = 0; step < loader.size(); ++step) {
    if (step == 10) set_trained(*model->backbone, true);
    optimizer.zero_grad();
    at::Tensor output = model->forward(loader[step].input);
    nn::functional::cross_entropy(output, loader[step].target).backward();
    optimizer.step();
  }
  return model;
}

TEST_CASE("from PyTorch: a frozen backbone, then two learning rates") {
  std::vector<Rows> loader = some_batches(20);
  Classifier model = pretrained(), hand_model = by_hand(loader);

  set_trained(*model->backbone, false);
  model->backbone->eval();
  Group slower{.match = "backbone.*", .lr = 1e-3};
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2, .groups = {slower}}};
  for (const Rows& batch : loader) {
    if (trainer.steps() == 10) set_trained(*model->backbone, true);
    trainer.step(batch);
  }

  same_end("fine_tuning", model->parameters(), hand_model->parameters(),
           pretrained()->parameters());
  trainer.evaluate(loader);
  CHECK(model->is_training());
  CHECK(!model->backbone->is_training());  // evaluate restores the mode of each module
  CHECK(test::same_bits(model->buffers(), pretrained()->buffers()));
}

TEST_CASE("from PyTorch: a frozen backbone keeps its bits") {
  Classifier model = pretrained();
  set_trained(*model->backbone, false);
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}};
  for (const Rows& batch : some_batches(10)) trainer.step(batch);
  CHECK(test::same_bits(model->backbone->parameters(), pretrained()->backbone->parameters()));
  CHECK(!test::same_bits(model->head->parameters(), pretrained()->head->parameters()));
}

}  // namespace fine_tuning
