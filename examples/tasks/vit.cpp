// ctest:
// Image classification: a Vision Transformer reads digits, wherever they are in a noisy image.
//
// The recipe is that of most papers on such models: BF16, AdamW without decay on biases, norms and
// positions, a warm-up and half a cosine, clipping, and an average of the weights, which `evaluate`
// and the validation of `fit` use. The model is examples/models/vit.hpp. In PyTorch:
//   torch.autocast("cpu", dtype=torch.bfloat16)         Precision<BF16>
//   two param_groups, with weight_decay 0.05 and 0      no_decay({...})
//   SequentialLR([LinearLR, CosineAnnealingLR])         CosineAnnealingLR{.warmup_steps}
//   clip_grad_norm_(model.parameters(), 1.0)            ClipGradNorm
//   AveragedModel(model, multi_avg_fn=...), validated   EMA
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>

#include "models/vit.hpp"
#include "tasks/digits.hpp"
using namespace ikebana;

int main() {
  torch::set_num_threads(1);  // so small a net gains nothing from more
  torch::manual_seed(0);
  DataLoader training{Digits{2048}, {.batch_size = 64, .num_workers = 1, .seed = 1}};
  const std::vector<Images> held_out{some_digits(500, 2)};
  constexpr std::int64_t epochs = 8, steps = epochs * 32;

  const ViTConfig config{.image = 16, .channels = 1, .layers = 2, .width = 64, .heads = 4};
  auto decays = [](const std::string& name, const at::Tensor& p) {
    return p.dim() < 2 || name == "position" || name == "class_token";
  };
  Trainer trainer{ViT(config),
                  AdamW{.lr = 4e-3, .weight_decay = 0.05, .groups = {no_decay(decays)}},
                  CosineAnnealingLR{.T_max = steps - 30, .warmup_steps = 30},
                  Precision<BF16>{},
                  ClipGradNorm{.max_norm = 1},
                  EMA{.decay = 0.98}};

  auto print = [](const Epoch& epoch) {
    std::cout << "epoch " << epoch.epoch << "  loss " << epoch.loss << "  held out: loss "
              << epoch.validation->loss << "  accuracy " << (*epoch.validation)["accuracy"] << '\n';
  };
  const History history = trainer.fit(
      training,
      {.epochs = epochs, .validate = held_out, .metrics = {Accuracy{}}, .on_epoch = print});

  const at::Tensor guess = trainer.predict(some_digits(1, 3).input).softmax(1);
  std::cout << "one more image: " << guess.argmax(1).item<std::int64_t>() << ", with probability "
            << guess.max().item<float>() << '\n';
  return (*history.back().validation)["accuracy"] > 0.85 ? 0 : 1;
}
