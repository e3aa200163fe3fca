#pragma once
// A residual network for small images. He et al., Deep Residual Learning for Image Recognition,
// CVPR 2016, section 4.2, with projections if shapes differ (option B) as torchvision's.
#include <torch/torch.h>

#include <ikebana.hpp>
#include <string>
#include <vector>

#include "common.hpp"

/// ResNet-20; ResNet-18 with its first layer for small images is {.blocks = 2, .stages = 4,
/// .width = 64}. Every stage but the first halves the image and doubles the width.
struct ResNetConfig {
  std::int64_t blocks = 3, stages = 3;  ///< blocks of a stage
  std::int64_t width = 16;              ///< channels of the first stage
  std::int64_t channels = 3, classes = 10;
};

inline Images random_batch(const ResNetConfig& c, std::int64_t rows, std::int64_t size) {
  return random_images(rows, c.channels, size, c.classes);
}

/// Two 3x3 convolutions with batch norm, added to their input.
struct BasicBlockImpl : torch::nn::Module {
  BasicBlockImpl(std::int64_t from, std::int64_t to, std::int64_t stride) {
    using namespace torch::nn;
    auto convolution = [](std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t by) {
      return Conv2d(Conv2dOptions(in, out, size).stride(by).padding(size / 2).bias(false));
    };
    conv1 = register_module("conv1", convolution(from, to, 3, stride));
    bn1 = register_module("bn1", BatchNorm2d(to));
    conv2 = register_module("conv2", convolution(to, to, 3, 1));
    bn2 = register_module("bn2", BatchNorm2d(to));
    if (from == to && stride == 1) return;
    downsample = register_module("downsample",
                                 Sequential(convolution(from, to, 1, stride), BatchNorm2d(to)));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = bn2(conv2(at::relu(bn1(conv1(x)))));
    return at::relu(y + (downsample ? downsample->forward(x) : x));
  }

  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr}, bn2{nullptr};
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(BasicBlock);

/// The class of an image of any size.
struct ResNetImpl : torch::nn::Module {
  using units = ikebana::Units<BasicBlock>;

  explicit ResNetImpl(const ResNetConfig& c) {
    using namespace torch::nn;
    conv1 = register_module("conv1",
                            Conv2d(Conv2dOptions(c.channels, c.width, 3).padding(1).bias(false)));
    bn1 = register_module("bn1", BatchNorm2d(c.width));
    std::int64_t width = c.width;
    for (std::int64_t stage = 0; stage < c.stages; ++stage)
      for (std::int64_t i = 0; i < c.blocks; ++i) {
        const bool narrows = stage > 0 && i == 0;
        const auto name = "layer" + std::to_string(stage + 1) + "_" + std::to_string(i);
        const auto to = narrows ? 2 * width : width;
        blocks.push_back(register_module(name, BasicBlock(width, to, narrows ? 2 : 1)));
        width = to;
      }
    fc = register_module("fc", Linear(width, c.classes));
    for (auto& p : parameters())  // as He et al., Delving Deep into Rectifiers, ICCV 2015
      if (p.dim() == 4) init::kaiming_normal_(p, 0, torch::kFanOut, torch::kReLU);
  }

  template <class Run>
  ikebana::Loss loss(Run& run, const Images& batch) {
    return cross_entropy(forward(run, batch.input), batch.target);
  }
  std::int64_t count(const Images& batch) const { return batch.target.numel(); }

  /// Takes (rows, channels, height, width), and returns (rows, classes) logits.
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& images) {
    at::Tensor x = at::relu(bn1(conv1(images)));
    for (BasicBlock& block : blocks) x = run(block, x);
    return fc(x.mean({2, 3}));
  }

  torch::nn::Conv2d conv1{nullptr};
  torch::nn::BatchNorm2d bn1{nullptr};
  std::vector<BasicBlock> blocks;
  torch::nn::Linear fc{nullptr};
};
TORCH_MODULE(ResNet);
