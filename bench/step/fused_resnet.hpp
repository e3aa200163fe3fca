#pragma once
// Defines the ResNet of ../gpu/resnet.hpp for small images with modules::BNReLU2d, and the same
// order of parameters.
#include <ikebana/grammar/units.hpp>
#include <ikebana/modules/bn_relu.hpp>

#include "../gpu/resnet.hpp"

namespace bench {

struct FusedBlockImpl : nn::Module {
  FusedBlockImpl(std::int64_t from, std::int64_t to, std::int64_t stride) {
    conv1 = register_module("conv1", convolution(from, to, 3, stride));
    norm1 = register_module("norm1", ikebana::modules::BNReLU2d(to));
    conv2 = register_module("conv2", convolution(to, to, 3, 1));
    norm2 = register_module("norm2", ikebana::modules::BNReLU2d(to));
    if (from == to && stride == 1) return;
    project = register_module("project", convolution(from, to, 1, stride));
    norm3 = register_module("norm3", nn::BatchNorm2d(to));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = conv2(norm1(conv1(x)));
    return norm2(y, project.is_empty() ? x : norm3(project(x)));
  }

  nn::Conv2d conv1{nullptr}, conv2{nullptr}, project{nullptr};
  ikebana::modules::BNReLU2d norm1{nullptr}, norm2{nullptr};
  nn::BatchNorm2d norm3{nullptr};
};
TORCH_MODULE(FusedBlock);

struct FusedResNetImpl : nn::Module {
  using units = ikebana::Units<FusedBlock>;

  FusedResNetImpl(std::int64_t width, std::int64_t classes) {
    stem = register_module("stem", convolution(3, width, 3, 1));
    norm = register_module("norm", ikebana::modules::BNReLU2d(width));
    for (std::int64_t i = 0, from = width; i < 8; ++i) {
      const std::int64_t to = width << (i / 2), stride = i % 2 == 0 && i > 0 ? 2 : 1;
      blocks.push_back(register_module("block" + std::to_string(i), FusedBlock(from, to, stride)));
      from = to;
    }
    head = register_module("head", nn::Linear(8 * width, classes));
  }
  template <class Run>
  at::Tensor forward(Run& run, at::Tensor x) {
    x = norm(stem(x));
    for (FusedBlock& block : blocks) x = run(block, x);
    return head(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  nn::Conv2d stem{nullptr};
  ikebana::modules::BNReLU2d norm{nullptr};
  std::vector<FusedBlock> blocks;
  nn::Linear head{nullptr};
};
TORCH_MODULE(FusedResNet);

}  // namespace bench
