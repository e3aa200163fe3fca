#pragma once
// Defines a ResNet-18 in channels_last, a LibTorch module like any other. resnet.py is its Python
// twin, with the same order of parameters. Source: He et al., Deep Residual Learning,
// arXiv:1512.03385.
#include <torch/torch.h>

#include <string>
#include <vector>

namespace bench {

namespace nn = torch::nn;

inline nn::Conv2d convolution(std::int64_t from, std::int64_t to, std::int64_t size,
                              std::int64_t stride) {
  auto options = nn::Conv2dOptions(from, to, size).stride(stride).padding(size / 2);
  return nn::Conv2d(options.bias(false));
}

/// Two convolutions with batch norm, added to their input or to a projection of it.
struct BasicBlockImpl : nn::Module {
  BasicBlockImpl(std::int64_t from, std::int64_t to, std::int64_t stride) {
    conv1 = register_module("conv1", convolution(from, to, 3, stride));
    norm1 = register_module("norm1", nn::BatchNorm2d(to));
    conv2 = register_module("conv2", convolution(to, to, 3, 1));
    norm2 = register_module("norm2", nn::BatchNorm2d(to));
    if (from == to && stride == 1) return;
    project = register_module("project", convolution(from, to, 1, stride));
    norm3 = register_module("norm3", nn::BatchNorm2d(to));
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = norm1(conv1(x)).relu_();
    y = norm2(conv2(y));
    return y.add_(project.is_empty() ? x : norm3(project(x))).relu_();
  }

  nn::Conv2d conv1{nullptr}, conv2{nullptr}, project{nullptr};
  nn::BatchNorm2d norm1{nullptr}, norm2{nullptr}, norm3{nullptr};
};
TORCH_MODULE(BasicBlock);

/// (rows, 3, height, width) images in channels_last to (rows, classes) logits. The first of four
/// pairs of blocks is `width` wide; 64 makes a ResNet-18. For small images, such as CIFAR's, the
/// first convolution is 3x3, and nothing before the blocks halves them.
struct ResNetImpl : nn::Module {
  ResNetImpl(std::int64_t width, std::int64_t classes, bool is_small) : small(is_small) {
    stem = register_module("stem", convolution(3, width, small ? 3 : 7, small ? 1 : 2));
    norm = register_module("norm", nn::BatchNorm2d(width));
    for (std::int64_t i = 0, from = width; i < 8; ++i) {
      const std::int64_t to = width << (i / 2);
      const std::int64_t stride = i % 2 == 0 && i > 0 ? 2 : 1;
      blocks.push_back(register_module("block" + std::to_string(i), BasicBlock(from, to, stride)));
      from = to;
    }
    head = register_module("head", nn::Linear(8 * width, classes));
    for (auto& p : parameters())
      if (p.dim() == 4) p.set_data(p.contiguous(at::MemoryFormat::ChannelsLast));
  }
  at::Tensor forward(at::Tensor x) {
    x = norm(stem(x)).relu_();
    if (!small) x = at::max_pool2d(x, 3, 2, 1);
    for (BasicBlock& block : blocks) x = block(x);
    return head(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  bool small;
  nn::Conv2d stem{nullptr};
  nn::BatchNorm2d norm{nullptr};
  std::vector<BasicBlock> blocks;
  nn::Linear head{nullptr};
};
TORCH_MODULE(ResNet);

}  // namespace bench
