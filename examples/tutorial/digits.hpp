#pragma once
// Pictures of digits, which the program draws, and a network that reads them.
#include <torch/torch.h>

#include <array>
#include <bitset>
#include <ikebana.hpp>

/// A batch, and a whole data set as well.
struct Digits {
  at::Tensor input;   // pictures (n, 1, 16, 16), Float
  at::Tensor target;  // digits (n), Long
};

/// The digits of a pocket calculator, (10, 9, 5): each is drawn with some of seven strokes.
inline at::Tensor glyphs() {
  const std::array strokes = {119, 36, 93, 109, 46, 107, 123, 37, 127, 111};
  at::Tensor all = at::zeros({10, 9, 5});
  for (int digit = 0; digit < 10; ++digit) {
    const std::bitset<7> has(static_cast<unsigned long>(strokes[static_cast<std::size_t>(digit)]));
    at::Tensor glyph = all[digit];
    if (has[0]) glyph.slice(0, 0, 1).fill_(1);                 // top
    if (has[1]) glyph.slice(0, 0, 5).slice(1, 0, 1).fill_(1);  // upper left
    if (has[2]) glyph.slice(0, 0, 5).slice(1, 4).fill_(1);     // upper right
    if (has[3]) glyph.slice(0, 4, 5).fill_(1);                 // middle
    if (has[4]) glyph.slice(0, 4).slice(1, 0, 1).fill_(1);     // lower left
    if (has[5]) glyph.slice(0, 4).slice(1, 4).fill_(1);        // lower right
    if (has[6]) glyph.slice(0, 8).fill_(1);                    // bottom
  }
  return all;
}

/// `n` pictures of random digits in random places, with noise over them.
inline Digits draw(std::int64_t n) {
  Digits drawn{0.3 * at::randn({n, 1, 16, 16}), at::randint(10, {n}, at::kLong)};
  at::Tensor all = glyphs();
  at::Tensor rows = at::randint(8, {n}, at::kLong), columns = at::randint(12, {n}, at::kLong);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto row = rows[i].item<std::int64_t>(), column = columns[i].item<std::int64_t>();
    at::Tensor place = drawn.input[i][0].slice(0, row, row + 9).slice(1, column, column + 5);
    place.add_(all[drawn.target[i].item<std::int64_t>()]);
  }
  return drawn;
}

struct ResidualBlockImpl : torch::nn::Module {
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::GroupNorm norm{nullptr};

  explicit ResidualBlockImpl(std::int64_t width) {
    const auto same = torch::nn::Conv2dOptions(width, width, 3).padding(1);
    conv1 = register_module("conv1", torch::nn::Conv2d(same));
    norm = register_module("norm", torch::nn::GroupNorm(torch::nn::GroupNormOptions(8, width)));
    conv2 = register_module("conv2", torch::nn::Conv2d(same));
  }
  at::Tensor forward(const at::Tensor& x) { return x + conv2(at::gelu(norm(conv1(x)))); }
};
TORCH_MODULE(ResidualBlock);

struct ReaderImpl : torch::nn::Module {
  using units = ikebana::Units<ResidualBlock>;  // what `run` is given
  torch::nn::Conv2d stem{nullptr};
  ResidualBlock block1{nullptr}, block2{nullptr}, block3{nullptr};
  torch::nn::Dropout dropout{nullptr};
  torch::nn::Linear head{nullptr};

  explicit ReaderImpl(std::int64_t width = 32) {
    const auto halves = torch::nn::Conv2dOptions(1, width, 3).stride(2).padding(1);
    stem = register_module("stem", torch::nn::Conv2d(halves));
    block1 = register_module("block1", ResidualBlock(width));
    block2 = register_module("block2", ResidualBlock(width));
    block3 = register_module("block3", ResidualBlock(width));
    dropout = register_module("dropout", torch::nn::Dropout(0.1));
    head = register_module("head", torch::nn::Linear(width, 10));
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& input) {
    at::Tensor x = run(block3, run(block2, run(block1, stem(input))));
    return head(dropout(x.amax({2, 3})));
  }
  template <class Run>
  ikebana::Loss loss(Run& run, const Digits& batch) {
    at::Tensor logits = forward(run, batch.input);
    at::Tensor sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum);
    return {.sum = sum, .count = batch.target.numel(), .outputs = logits};
  }
};
TORCH_MODULE(Reader);
