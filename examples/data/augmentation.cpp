// Trains on CIFAR-10, of the folder in its argument, with CutMix; without one, on images made here.
#include <torch/torch.h>

#include <filesystem>
#include <ikebana.hpp>
#include <ikebana/images/transforms.hpp>
#include <iostream>
using namespace ikebana;
using namespace ikebana::images;
namespace nn = torch::nn;

struct Cifar {
  at::Tensor rows;  // (n, 3073), Byte: label and pixels
  Compose<RandomCrop, RandomHorizontalFlip, ColorJitter, ToFloat, Normalize> augment = {
      {.size = 32, .padding = 4}, {}, {.brightness = 0.2, .hue = 0.05}, {}, {{0.47}, {0.25}}};
  std::int64_t size() const { return rows.size(0); }
  auto get(std::int64_t index, SampleRng& rng) const {
    const at::Tensor row = rows[index], x = augment(row.narrow(0, 1, 3072).view({3, 32, 32}), rng);
    return std::tuple(x, row[0].item<std::int64_t>(), draw_key(rng));
  }
};

int main(int argc, char** argv) {
  at::Tensor rows = at::arange(1000).remainder(10).to(at::kByte).view({1000, 1}).repeat({1, 3073});
  rows.narrow(1, 1, 3072).mul_(20).add_(at::randint(60, {1000, 3072}, at::kByte));
  if (argc > 1) {
    const auto file = std::filesystem::path(argv[1]) / "data_batch_1.bin";
    const auto n = std::int64_t(std::filesystem::file_size(file) / 3073);
    rows = at::from_file(file.string(), false, n * 3073, at::kByte).view({n, 3073});
  }
  auto mix = [](const auto& samples, const at::Tensor& indices) {
    auto [images, labels, keys] = DefaultCollate{}(samples, indices);
    return CutMix{.num_classes = 10}(images, labels, keys);
  };
  DataLoader loader{Cifar{rows}, {.batch_size = 50, .shuffle = true, .num_workers = 1}, mix};
  nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(3, 32, 4).stride(4)), nn::ReLU(), nn::Flatten(),
                     nn::Linear(32 * 8 * 8, 10));
  Trainer trainer{net, CrossEntropyLoss{}, AdamW{.lr = 2e-3}};
  trainer.fit(loader, {.epochs = 3, .on_epoch = [](auto& e) { std::cout << e.loss << '\n'; }});
  return 0;
}
