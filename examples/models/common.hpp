#pragma once
// Defines what several models share: batches of tokens and of images, and random ones for tests and
// benchmarks, which draw from LibTorch's default generator.
#include <torch/torch.h>

#include <ikebana.hpp>

/// (rows, length) integers; `target` is `input` shifted by one token.
struct Tokens {
  at::Tensor input, target;
};

/// Images, (rows, channels, height, width), and a class of each, (rows), or of each pixel, (rows,
/// height, width).
struct Images {
  at::Tensor input, target;
};

inline Tokens random_tokens(std::int64_t rows, std::int64_t length, std::int64_t vocabulary) {
  at::Tensor text = at::randint(vocabulary, {rows, length + 1}, at::kLong);
  return {text.slice(1, 0, length), text.slice(1, 1)};
}

/// Returns square images of `size` pixels in each direction, and a class of each.
inline Images random_images(std::int64_t rows, std::int64_t channels, std::int64_t size,
                            std::int64_t classes) {
  return {at::randn({rows, channels, size, size}), at::randint(classes, {rows}, at::kLong)};
}

/// One fused `addmm`; torch::nn::Linear adds the bias of a 3-D input in a pass of its own.
inline at::Tensor linear(const torch::nn::Linear& layer, const at::Tensor& x) {
  return at::linear(x, layer->weight, layer->bias);
}

/// Takes logits (rows, classes, ...) and the class of each; returns the summed cross entropy, the
/// number of targets, and the logits, for metrics.
inline ikebana::Loss cross_entropy(const at::Tensor& logits, const at::Tensor& target) {
  return {.sum = at::cross_entropy_loss(logits, target, {}, at::Reduction::Sum),
          .count = target.numel(),
          .outputs = logits};
}
