// Reads a folder of JPEGs, one folder per class: decodes, resizes the short side to 256, crops the
// center of 224 and makes batches of 32. For jpeg_folder.py, which compares it with Python:
//
//     jpeg_folder <folder> <workers> <rounds>
//
// prints for each round images per second and a checksum of all pixels.
#include <chrono>
#include <cstdlib>
#include <ikebana/data/loader.hpp>
#include <ikebana/images/collate.hpp>
#include <ikebana/images/folder.hpp>
#include <iostream>

using namespace ikebana;
using namespace ikebana::images;

namespace {

at::Tensor resized_and_cropped(const at::Tensor& image) {
  const std::int64_t h = image.size(1), w = image.size(2), size = 256, crop = 224;
  const std::int64_t height = h <= w ? size : size * h / w, width = h <= w ? size * w / h : size;
  // With these strides LibTorch sees that the layout is channels_last, and keeps it.
  const at::Tensor batch = image.permute({1, 2, 0}).unsqueeze(0).permute({0, 3, 1, 2});
  const at::Tensor resized = at::_upsample_bilinear2d_aa(batch, {height, width}, false);
  const auto middle = [](std::int64_t n) { return std::llrint(double(n - 224) / 2.0); };
  return resized[0].narrow(1, middle(height), crop).narrow(2, middle(width), crop);
}

/// A sum in which each pixel counts by its place, so that pixels cannot be exchanged.
std::int64_t checksum(const at::Tensor& images) {
  const at::Tensor rows = images.sum({1, 3}, false, at::kLong),
                   columns = images.sum({1, 2}, false, at::kLong);
  const at::Tensor places = at::arange(1, 225);
  return ((rows * places).sum() + (columns * places * places).sum()).item<std::int64_t>() +
         images.select(1, 0).sum(at::kLong).item<std::int64_t>();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return std::cerr << "jpeg_folder <folder> <workers> <rounds>\n", 2;
  const ImageFolder dataset(arguments[1], resized_and_cropped);
  DataLoader loader{
      &dataset, {.batch_size = 32, .num_workers = std::atoi(arguments[2])}, ChannelsLastCollate{}};
  for (int round = 0; round < std::atoi(arguments[3]); ++round) {
    std::int64_t sum = 0, images = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (const LabelledImage& batch : loader) {
      images += batch.input.size(0);
      if (round == 0) sum += checksum(batch.input);  // the first round also warms the page cache
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    std::cout << static_cast<double>(images) / time.count() << ' ' << sum << std::endl;
  }
  return 0;
}
