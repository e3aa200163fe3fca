// ctest:
// Segmentation: a U-Net finds diamonds and squares in noisy images. Both are equally bright, so
// that the class of a pixel is in the outline around it.
//
// The dataset draws a new image for each sample of each epoch. The loss has two terms with a count
// each: cross entropy over pixels, and the Dice loss over images and classes, which does not mind
// that most pixels are background. `run(net, images)` runs the net unit by unit. In PyTorch:
//   Dataset.__getitem__, DataLoader(shuffle, num_workers)    get(index, SampleRng&), DataLoader
//   F.cross_entropy(...) + dice.mean()                       Loss::terms
//   model.to(memory_format=torch.channels_last), input too   Layout<ChannelsLast>
//   CosineAnnealingLR and scheduler.step()                   CosineAnnealingLR, no call
//   torchmetrics' MeanIoU in a validation loop               MeanIoU and evaluate
#include <torch/torch.h>

#include <algorithm>
#include <ikebana.hpp>
#include <iostream>

#include "models/unet.hpp"
using namespace ikebana;

constexpr std::int64_t size_of_image = 32, background = 0, diamond = 1, square = 2, classes = 3;

/// Two shapes in noise, and the class of each pixel.
struct Shapes {
  std::int64_t images;

  std::int64_t size() const { return images; }
  Images get(std::int64_t, SampleRng& rng) const {
    const at::Tensor axis = at::arange(size_of_image, at::kFloat);
    at::Tensor target = at::full({size_of_image, size_of_image}, background, at::kLong);
    for (int i = 0; i < 2; ++i) {
      const std::int64_t kind = rng.randint(2) == 0 ? diamond : square;
      const double radius = 3 + 3 * rng.uniform(), y = 32 * rng.uniform(), x = 32 * rng.uniform();
      const at::Tensor down = (axis - y).abs().unsqueeze(1), right = (axis - x).abs();
      const at::Tensor far = kind == diamond ? (down + right) / 1.4 : at::maximum(down, right);
      target.masked_fill_(far < radius, kind);
    }
    const at::Tensor noise = at::randn({1, size_of_image, size_of_image}, rng.generator());
    return {(target != background) + 0.3 * noise, target};
  }
};

/// Intersection over union, the mean over both kinds of shapes.
struct MeanIoU {
  std::string name = "IoU";
  at::Tensor both = at::zeros({classes}), either = at::zeros({classes});
  void update(const Images& batch, const at::Tensor& logits) {
    const at::Tensor found = at::one_hot(logits.argmax(1), classes).flatten(0, 2);
    const at::Tensor target = at::one_hot(batch.target, classes).flatten(0, 2);
    both += (found & target).sum(0), either += (found | target).sum(0);
  }
  double value() const { return (both / either).slice(0, diamond).mean().item<double>(); }
};

int main() {
  torch::set_num_threads(1);  // so small a net gains nothing from more
  torch::manual_seed(0);
  DataLoader training{Shapes{512}, {.batch_size = 8, .num_workers = 1, .seed = 1}};
  DataLoader held_out{Shapes{64}, {.batch_size = 16, .seed = 2}};

  auto objective = [](auto& run, UNet& net, const Images& batch) {
    const at::Tensor logits = run(net, batch.input), p = logits.softmax(1);
    const at::Tensor target = at::one_hot(batch.target, classes).movedim(-1, 1);
    const at::Tensor overlap = (p * target).sum({2, 3}), total = (p + target).sum({2, 3});
    const at::Tensor dice = 1 - (2 * overlap + 1) / (total + 1);  // (rows, classes)
    const at::Tensor entropy = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum);
    return Loss{.outputs = logits,
                .terms = {{"cross entropy", entropy, batch.target.numel()},
                          {"dice", dice.sum(), dice.numel()}}};
  };
  Trainer trainer{UNet(UNetConfig{.channels = 1, .classes = classes, .width = 8, .depth = 2}),
                  objective, AdamW{.lr = 4e-3}, CosineAnnealingLR{.T_max = 6 * 64},
                  Layout<ChannelsLast>{}};

  std::cout << "before    IoU " << trainer.evaluate(held_out, MeanIoU{})["IoU"] << '\n';
  auto print = [](const Epoch& epoch) {
    std::cout << "epoch " << epoch.epoch << "   IoU " << (*epoch.validation)["IoU"] << "   loss "
              << epoch.validation->loss << '\n';
  };
  const History history = trainer.fit(
      training, {.epochs = 6, .validate = held_out, .metrics = {MeanIoU{}}, .on_epoch = print});
  return (*history.back().validation)["IoU"] > 0.75 ? 0 : 1;
}
