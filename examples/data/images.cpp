// Trains a classifier of images that lie in one folder per class: images <folder>. Without an
// argument it makes a folder of small pictures, with horizontal and with vertical stripes.
#include <png.h>
#include <torch/torch.h>

#include <filesystem>
#include <ikebana.hpp>
#include <ikebana/images/folder.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;

std::filesystem::path make_pictures() {
  const auto root = std::filesystem::temp_directory_path() / "ikebana_stripes";
  for (const char* name : {"horizontal", "vertical"}) {
    std::filesystem::create_directories(root / name);
    for (int i = 0; i < 64; ++i) {
      at::Tensor x = at::arange(48).mul(1 + i % 3).remainder(16).mul(10).view({48, 1, 1});
      x = (*name == 'h' ? x : x.transpose(0, 1)) + at::randint(90, {48, 48, 3});
      png_image file{nullptr, PNG_IMAGE_VERSION, 48, 48, PNG_FORMAT_RGB, 0, 0, 0, {}};
      png_image_write_to_file(&file, (root / name / (std::to_string(i) + ".png")).c_str(), 0,
                              x.to(at::kByte).const_data_ptr(), 0, nullptr);
    }
  }
  return root;
}

int main(int count, char** arguments) {
  torch::manual_seed(0);
  const auto to_input = [](const at::Tensor& image, SampleRng& rng) {
    at::Tensor x = at::_upsample_bilinear2d_aa(image.unsqueeze(0), {32, 32}, false)[0];
    return (rng.uniform() < 0.5 ? x.flip(2) : x).to(at::kFloat) / 255;
  };
  images::ImageFolder dataset(count > 1 ? arguments[1] : make_pictures(), to_input);
  DataLoader loader{&dataset, {.batch_size = 16, .shuffle = true, .num_workers = 2}};
  nn::Sequential model(nn::Conv2d(3, 16, 5), nn::ReLU(), nn::AdaptiveMaxPool2d(1), nn::Flatten(),
                       nn::Linear(16, std::ssize(dataset.classes())));
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-2}};
  auto print = [](const Epoch& epoch) { std::cout << "loss " << epoch.loss << '\n'; };
  History history = trainer.fit(loader, {.epochs = 3, .on_epoch = print});
  return history.back().loss < history.front().loss ? 0 : 1;
}
