#pragma once
// A Vision Transformer: an image is a sequence of patches, and a class token gathers what the head
// reads. Dosovitskiy et al., ICLR 2021, arXiv:2010.11929.
#include <torch/torch.h>

#include <cmath>
#include <ikebana.hpp>
#include <ikebana/modules/attention.hpp>
#include <string>
#include <vector>

#include "common.hpp"

/// ViT-B/16 is {.image = 224, .patch = 16, .classes = 1000, .layers = 12, .width = 768,
/// .heads = 12}.
struct ViTConfig {
  std::int64_t image = 32, patch = 4, channels = 3, classes = 10;
  std::int64_t layers = 6, width = 192, heads = 3;
  double dropout = 0;

  std::int64_t patches() const { return (image / patch) * (image / patch); }
};

inline Images random_batch(const ViTConfig& c, std::int64_t rows) {
  return random_images(rows, c.channels, c.image, c.classes);
}

/// Attention, then an MLP; each reads a normalised copy of the residual that it adds to.
struct ViTBlockImpl : torch::nn::Module {
  explicit ViTBlockImpl(const ViTConfig& c) : heads(c.heads), p(c.dropout) {
    using namespace torch::nn;
    norm1 = register_module("norm1", LayerNorm(LayerNormOptions({c.width}).eps(1e-6)));
    qkv = register_module("qkv", Linear(c.width, 3 * c.width));
    out = register_module("out", Linear(c.width, c.width));
    norm2 = register_module("norm2", LayerNorm(LayerNormOptions({c.width}).eps(1e-6)));
    up = register_module("up", Linear(c.width, 4 * c.width));
    down = register_module("down", Linear(4 * c.width, c.width));
    for (Linear* layer : {&qkv, &up, &down}) init::xavier_uniform_((*layer)->weight);
    for (Linear* layer : {&qkv, &out}) init::zeros_((*layer)->bias);
    for (Linear* layer : {&up, &down}) init::normal_((*layer)->bias, 0, 1e-6);
  }
  at::Tensor forward(at::Tensor x) {
    x = x + drop(linear(out, attend(linear(qkv, norm1(x)))));
    return x + drop(linear(down, drop(at::gelu(linear(up, norm2(x))))));
  }
  /// (rows, length, 3 * width) to (rows, length, width); every patch sees all others.
  at::Tensor attend(const at::Tensor& x) const {
    const auto parts = x.unflatten(-1, {3, heads, -1}).permute({2, 0, 3, 1, 4}).unbind();
    const auto y = ikebana::modules::attention(parts[0], parts[1], parts[2]);
    return y.transpose(1, 2).flatten(2);
  }
  at::Tensor drop(const at::Tensor& x) const { return at::dropout(x, p, is_training()); }

  std::int64_t heads;
  double p;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(ViTBlock);

/// The class of an image. Initialised as torchvision's: the head with zeros, so that all classes
/// are equally likely at first.
struct ViTImpl : torch::nn::Module {
  using units = ikebana::Units<ViTBlock>;

  /// Throws c10::ValueError if patches do not cover the image.
  explicit ViTImpl(const ViTConfig& c) : p(c.dropout) {
    using namespace torch::nn;
    TORCH_CHECK_VALUE(c.image % c.patch == 0, "ViT: `image` is ", c.image,
                      ", and must be a multiple of `patch`, ", c.patch);
    patches = register_module("patches",
                              Conv2d(Conv2dOptions(c.channels, c.width, c.patch).stride(c.patch)));
    class_token = register_parameter("class_token", torch::zeros({1, 1, c.width}));
    position = register_parameter("position", 0.02 * torch::randn({1, c.patches() + 1, c.width}));
    for (std::int64_t i = 0; i < c.layers; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), ViTBlock(c)));
    norm = register_module("norm", LayerNorm(LayerNormOptions({c.width}).eps(1e-6)));
    head = register_module("head", Linear(c.width, c.classes));
    const auto inputs = static_cast<double>(c.channels * c.patch * c.patch);
    init::normal_(patches->weight, 0, std::sqrt(1 / inputs));
    for (const at::Tensor& zero : {patches->bias, head->weight, head->bias}) init::zeros_(zero);
  }

  template <class Run>
  ikebana::Loss loss(Run& run, const Images& batch) {
    return cross_entropy(forward(run, batch.input), batch.target);
  }
  std::int64_t count(const Images& batch) const { return batch.target.numel(); }

  /// Takes (rows, channels, image, image), and returns (rows, classes) logits.
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& images) {
    at::Tensor x = patches(images).flatten(2).transpose(1, 2);
    x = at::cat({class_token.expand({x.size(0), -1, -1}), x}, 1) + position;
    x = at::dropout(x, p, is_training());
    for (ViTBlock& block : blocks) x = run(block, x);
    return head(norm(x.select(1, 0)));
  }

  double p;
  torch::nn::Conv2d patches{nullptr};
  at::Tensor class_token, position;
  std::vector<ViTBlock> blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(ViT);
