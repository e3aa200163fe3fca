// Measures the time of a step with Layout<ChannelsLast> over that without: medians of interleaved
// rounds, one thread, and the losses of both. Writes a Markdown table.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <models/models.hpp>

#include "conditions.hpp"

namespace {

using namespace ikebana;

template <class Trainer, class Batch>
double seconds(Trainer& trainer, const Batch& batch) {
  const auto begin = std::chrono::steady_clock::now();
  trainer.step(batch);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <class Model, class P, class Config, class Batch>
void measure(const char* name, const char* precision, const Config& config, const Batch& batch) {
  const auto model = [&] {
    torch::manual_seed(1);
    return Model(config);
  };
  Trainer<Model, AdamW, P> contiguous{model()};
  Trainer<Model, AdamW, P, Layout<ChannelsLast>> last{model()};
  const double a = contiguous.step(batch).loss(), b = last.step(batch).loss();
  if (!(std::abs(a - b) <= 0.01 * std::abs(a))) {
    std::printf("%s: the losses are %g and %g\n", name, a, b);
    std::exit(1);
  }
  std::vector<double> ratios, times;
  for (int round = 0; round < 15; ++round) {
    times.push_back(seconds(contiguous, batch));
    ratios.push_back(seconds(last, batch) / times.back());
  }
  std::printf("| %s | %s | %.1f | %.2f |\n", name, precision, bench::median(times) * 1e3,
              bench::median(ratios));
}

}  // namespace

int main() {
  at::set_num_threads(1);
  bench::print_conditions("", 15);
  std::puts("\n| model | precision | contiguous ms | channels last over contiguous |");
  std::puts("|---|---|---:|---:|");
  const ResNetConfig resnet;
  const auto images = random_batch(resnet, 32, 32);
  measure<ResNet, Precision<FP32>>("ResNet-20, 32 of 32x32", "FP32", resnet, images);
  measure<ResNet, Precision<BF16>>("ResNet-20, 32 of 32x32", "BF16", resnet, images);
  const UNetConfig unet;
  const auto large = random_batch(unet, 4, 64);
  measure<UNet, Precision<FP32>>("U-Net, 4 of 64x64", "FP32", unet, large);
  measure<UNet, Precision<BF16>>("U-Net, 4 of 64x64", "BF16", unet, large);
}
