// ctest:
// Knowledge distillation (Hinton et al., 2015): a convolutional net that has learned to read digits
// teaches a smaller net on images of which one in sixteen has a label. The same small net learns
// alone, from these labels, for comparison.
//
// A term of the loss is a sum and a count: the teacher's opinion counts for every image, a label
// if there is one. OneCycleLR is for short trainings of small nets. In PyTorch:
//   teacher.eval(), with torch.no_grad(): taught = teacher(input)    teacher.predict
//   F.kl_div(..., reduction="batchmean") * T**2 + 0.1 * hard         Loss::terms, with scales
//   F.cross_entropy(logits, target, ignore_index=-100), a mean       a sum and a count of labels
//   the loops over epochs and over validation data                   fit, evaluate
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>

#include "tasks/digits.hpp"
using namespace ikebana;
namespace nn = torch::nn;

Images noisy(Images images) {
  images.input = images.input + 0.5 * at::randn_like(images.input);
  return images;
}

nn::Sequential large() {
  using Conv = nn::Conv2dOptions;
  return nn::Sequential(nn::Conv2d(Conv(1, 16, 4).stride(2).padding(1)), nn::ReLU(),
                        nn::Conv2d(Conv(16, 32, 3).padding(1)), nn::ReLU(), nn::MaxPool2d(2),
                        nn::Conv2d(Conv(32, 64, 3).padding(1)), nn::ReLU(), nn::Flatten(),
                        nn::Linear(1024, 10));
}
nn::Sequential small() {
  return nn::Sequential(nn::Flatten(), nn::Linear(256, 64), nn::ReLU(), nn::Linear(64, 10));
}

int main() {
  torch::manual_seed(0), torch::set_num_threads(1);  // small nets gain nothing from more
  const Images all = noisy(some_digits(4096, 0)), few{all.input, all.target.clone()};
  few.target.view({256, 16}).narrow(1, 1, 15).fill_(-100);  // no label
  const std::vector<Images> held_out{noisy(some_digits(1024, 1))};
  DataLoader labelled{TensorDataset{all}, {.batch_size = 64, .shuffle = true}};
  DataLoader unlabelled{TensorDataset{few}, {.batch_size = 256, .shuffle = true}};

  OneCycleLR once{.max_lr = 3e-3, .total_steps = 4 * 64};
  Trainer teacher{large(), CrossEntropyLoss{}, AdamW{}, once};
  teacher.fit(labelled, {.epochs = 4});

  auto imitate = [&](auto& run, nn::Sequential& model, const Images& batch) {
    const double T = 2;  // the temperature
    at::Tensor logits = run(model, batch.input), taught = teacher.predict(batch.input);
    at::Tensor soft = at::kl_div((logits / T).log_softmax(1), (taught / T).log_softmax(1),
                                 at::Reduction::Sum, /*log_target=*/true);
    at::Tensor hard = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum);
    return Loss{.outputs = logits,
                .terms = {{"soft", soft, logits.size(0), T * T},
                          {"hard", hard, (batch.target != -100).sum(), 0.1}}};
  };
  OneCycleLR cycle{.max_lr = 1e-2, .total_steps = 20 * 16};
  Trainer student{small(), imitate, AdamW{}, cycle};
  Trainer alone{small(), CrossEntropyLoss{}, AdamW{}, cycle};
  student.fit(unlabelled, {.epochs = 20});
  alone.fit(unlabelled, {.epochs = 20});

  auto accuracy = [&](auto& trainer) { return trainer.evaluate(held_out, Accuracy{})["accuracy"]; };
  const double best = accuracy(teacher), taught = accuracy(student), untaught = accuracy(alone);
  std::cout << "accuracy: teacher " << best << ", student " << taught << ", the same net alone "
            << untaught << '\n';
  return best > 0.8 && taught > untaught + 0.3 ? 0 : 1;
}
