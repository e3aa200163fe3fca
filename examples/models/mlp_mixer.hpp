#pragma once
// An MLP-Mixer: MLPs over the patches of an image and MLPs over their channels take turns.
// Tolstikhin et al., MLP-Mixer: An all-MLP Architecture for Vision, NeurIPS 2021.
#include <torch/torch.h>

#include <cmath>
#include <ikebana.hpp>
#include <string>
#include <vector>

#include "common.hpp"

/// Mixer-B/16 is {.image = 224, .patch = 16, .classes = 1000, .layers = 12, .width = 768,
/// .tokens_width = 384, .channels_width = 3072}.
struct MixerConfig {
  std::int64_t image = 32, patch = 4, channels = 3, classes = 10;
  std::int64_t layers = 6, width = 128, tokens_width = 64, channels_width = 512;

  std::int64_t patches() const { return (image / patch) * (image / patch); }
};

inline Images random_batch(const MixerConfig& c, std::int64_t rows) {
  return random_images(rows, c.channels, c.image, c.classes);
}

/// Mixes patches, the same for each channel, then channels, the same for each patch.
struct MixerBlockImpl : torch::nn::Module {
  explicit MixerBlockImpl(const MixerConfig& c) {
    using namespace torch::nn;
    norm1 = register_module("norm1", LayerNorm(LayerNormOptions({c.width}).eps(1e-6)));
    tokens_up = register_module("tokens_up", Linear(c.patches(), c.tokens_width));
    tokens_down = register_module("tokens_down", Linear(c.tokens_width, c.patches()));
    norm2 = register_module("norm2", LayerNorm(LayerNormOptions({c.width}).eps(1e-6)));
    channels_up = register_module("channels_up", Linear(c.width, c.channels_width));
    channels_down = register_module("channels_down", Linear(c.channels_width, c.width));
  }
  /// Takes (rows, patches, width), and returns the same shape.
  at::Tensor forward(at::Tensor x) {
    const at::Tensor tokens = norm1(x).transpose(1, 2);
    x = x + linear(tokens_down, at::gelu(linear(tokens_up, tokens))).transpose(1, 2);
    return x + linear(channels_down, at::gelu(linear(channels_up, norm2(x))));
  }

  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear tokens_up{nullptr}, tokens_down{nullptr};
  torch::nn::Linear channels_up{nullptr}, channels_down{nullptr};
};
TORCH_MODULE(MixerBlock);

/// The class of an image.
struct MixerImpl : torch::nn::Module {
  using units = ikebana::Units<MixerBlock>;

  /// Throws c10::ValueError if patches do not cover the image.
  explicit MixerImpl(const MixerConfig& c) {
    using namespace torch::nn;
    TORCH_CHECK_VALUE(c.image % c.patch == 0, "Mixer: `image` is ", c.image,
                      ", and must be a multiple of `patch`, ", c.patch);
    patches = register_module("patches",
                              Conv2d(Conv2dOptions(c.channels, c.width, c.patch).stride(c.patch)));
    for (std::int64_t i = 0; i < c.layers; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), MixerBlock(c)));
    norm = register_module("norm", LayerNorm(LayerNormOptions({c.width}).eps(1e-6)));
    head = register_module("head", Linear(c.width, c.classes));
    initialise();
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
    for (MixerBlock& block : blocks) x = run(block, x);
    return head(norm(x).mean(1));
  }

  torch::nn::Conv2d patches{nullptr};
  std::vector<MixerBlock> blocks;
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};

 private:
  /// As the paper's code: the variance of a weight is 1 / inputs, and the head is zero, so that all
  /// classes are equally likely at first.
  void initialise() {
    const at::NoGradGuard no_grad;
    for (auto& item : named_parameters()) {
      at::Tensor& p = item.value();
      if (item.key().find("norm") != std::string::npos) continue;  // norms are the identity
      if (p.dim() < 2 || item.key() == "head.weight") p.zero_();
      else p.normal_(0, std::sqrt(1 / static_cast<double>(p[0].numel())));
    }
  }
};
TORCH_MODULE(Mixer);
