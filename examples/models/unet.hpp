#pragma once
// A U-Net: the class of every pixel. Ronneberger et al., U-Net: Convolutional Networks for
// Biomedical Image Segmentation, MICCAI 2015, with padding, so that the result is as large as the
// image, and with batch norm, as in its successor by Çiçek et al., MICCAI 2016.
#include <torch/torch.h>

#include <ikebana.hpp>
#include <string>
#include <vector>

#include "common.hpp"

/// The paper's is {.channels = 1, .width = 64, .depth = 4}.
struct UNetConfig {
  std::int64_t channels = 3, classes = 2;
  std::int64_t width = 16;  ///< channels at full size; each halving of the image doubles them
  std::int64_t depth = 3;   ///< how often the image is halved
};

/// Returns square images, whose `size` is a multiple of 2^depth, and a class of each pixel.
inline Images random_batch(const UNetConfig& c, std::int64_t rows, std::int64_t size) {
  return {at::randn({rows, c.channels, size, size}),
          at::randint(c.classes, {rows, size, size}, at::kLong)};
}

/// Makes two 3x3 convolutions, each with batch norm and ReLU.
inline torch::nn::Sequential two_convolutions(std::int64_t from, std::int64_t to) {
  using namespace torch::nn;
  auto convolution = [&](std::int64_t in) {
    return Conv2d(Conv2dOptions(in, to, 3).padding(1).bias(false));
  };
  return Sequential(convolution(from), BatchNorm2d(to), ReLU(), convolution(to), BatchNorm2d(to),
                    ReLU());
}

/// Halves the image, except at the top, and computes its features.
struct UNetDownImpl : torch::nn::Module {
  UNetDownImpl(std::int64_t from, std::int64_t to, bool at_top) : halves(!at_top) {
    convolutions = register_module("convolutions", two_convolutions(from, to));
  }
  at::Tensor forward(const at::Tensor& x) {
    return convolutions->forward(halves ? at::max_pool2d(x, 2) : x);
  }

  bool halves;
  torch::nn::Sequential convolutions{nullptr};
};
TORCH_MODULE(UNetDown);

/// Doubles the image, and joins it with the features of this size on the way down.
struct UNetUpImpl : torch::nn::Module {
  UNetUpImpl(std::int64_t from, std::int64_t to) {
    using namespace torch::nn;
    enlarge =
        register_module("enlarge", ConvTranspose2d(ConvTranspose2dOptions(from, to, 2).stride(2)));
    convolutions = register_module("convolutions", two_convolutions(2 * to, to));
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& skipped) {
    return convolutions->forward(at::cat({skipped, enlarge(x)}, 1));
  }

  torch::nn::ConvTranspose2d enlarge{nullptr};
  torch::nn::Sequential convolutions{nullptr};
};
TORCH_MODULE(UNetUp);

/// Weights are drawn as in the paper, with a variance of 2 / inputs.
struct UNetImpl : torch::nn::Module {
  using units = ikebana::Units<UNetDown, UNetUp>;

  explicit UNetImpl(const UNetConfig& c) {
    using namespace torch::nn;
    for (std::int64_t i = 0; i <= c.depth; ++i)
      downs.push_back(register_module(
          "down" + std::to_string(i),
          UNetDown(i == 0 ? c.channels : c.width << (i - 1), c.width << i, /*at_top=*/i == 0)));
    for (std::int64_t i = c.depth - 1; i >= 0; --i)
      ups.push_back(
          register_module("up" + std::to_string(i), UNetUp(c.width << (i + 1), c.width << i)));
    head = register_module("head", Conv2d(Conv2dOptions(c.width, c.classes, 1)));
    for (auto& p : parameters())
      if (p.dim() == 4) init::kaiming_normal_(p);
  }

  template <class Run>
  ikebana::Loss loss(Run& run, const Images& batch) {
    return cross_entropy(forward(run, batch.input), batch.target);
  }
  std::int64_t count(const Images& batch) const { return batch.target.numel(); }

  /// Takes (rows, channels, height, width), and returns (rows, classes, height, width) logits.
  /// Throws c10::ValueError if height or width is no multiple of 2^depth.
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& images) {
    const auto multiple = std::int64_t{1} << ups.size();
    TORCH_CHECK_VALUE(images.size(2) % multiple == 0 && images.size(3) % multiple == 0,
                      "UNet: the images are ", images.sizes(), "; pad their height and width to a ",
                      "multiple of ", multiple);
    std::vector<at::Tensor> skipped;
    at::Tensor x = images;
    for (UNetDown& down : downs) skipped.push_back(x = run(down, x));
    skipped.pop_back();  // the smallest is not skipped
    for (UNetUp& up : ups) {
      x = run(up, x, skipped.back());
      skipped.pop_back();
    }
    return head(x);
  }

  std::vector<UNetDown> downs;
  std::vector<UNetUp> ups;  // the smallest first
  torch::nn::Conv2d head{nullptr};
};
TORCH_MODULE(UNet);
