#pragma once
// A byte-level GPT, written like any LibTorch model. Three lines are for ikebana: `units`,
// `run(block, x)`, and a loss that is a sum and a count.
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <ikebana.hpp>
#include <ikebana/modules/attention.hpp>
#include <ikebana/modules/linear.hpp>
#include <string>
#include <vector>

#include "common.hpp"

struct GPTConfig {
  std::int64_t layers = 4, width = 128, heads = 4, context = 64;
  double dropout = 0;
};

/// Returns `rows` random windows of `length` bytes, at most `context`.
inline Tokens random_batch(const GPTConfig&, std::int64_t rows, std::int64_t length) {
  return random_tokens(rows, length, 256);
}

/// Attention, then an MLP; each reads a normalised copy of the residual that it adds to.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const GPTConfig& c) : heads(c.heads), p(c.dropout) {
    using namespace torch::nn;
    norm1 = register_module("norm1", LayerNorm(LayerNormOptions({c.width})));
    qkv = register_module("qkv", Linear(c.width, 3 * c.width));
    out = register_module("out", Linear(c.width, c.width));
    norm2 = register_module("norm2", LayerNorm(LayerNormOptions({c.width})));
    up = register_module("up", Linear(c.width, 4 * c.width));
    down = register_module("down", Linear(4 * c.width, c.width));
  }
  at::Tensor forward(at::Tensor x) {
    x = x + drop(linear(out, attend(linear(qkv, norm1(x)))));
    return x + drop(linear(down, at::gelu(linear(up, norm2(x)))));
  }
  /// Takes (rows, length, 3 * width), and returns (rows, length, width).
  at::Tensor attend(const at::Tensor& x) {
    auto parts = x.unflatten(-1, {3, heads, -1}).permute({2, 0, 3, 1, 4}).unbind();
    auto y = ikebana::modules::attention(parts[0], parts[1], parts[2],
                                         {.dropout_p = is_training() ? p : 0, .is_causal = true});
    return y.transpose(1, 2).flatten(2);
  }
  at::Tensor drop(const at::Tensor& x) { return at::dropout(x, p, is_training()); }

  std::int64_t heads;
  double p;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, out{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

/// Predicts the next byte of a text. The embedding is also the head.
struct GPTImpl : torch::nn::Module {
  using units = ikebana::Units<Block>;

  explicit GPTImpl(const GPTConfig& c) : config(c) {
    using namespace torch::nn;
    token = register_module("token", Embedding(256, c.width));
    position = register_module("position", Embedding(c.context, c.width));
    for (std::int64_t i = 0; i < c.layers; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block(c)));
    norm = register_module("norm", LayerNorm(LayerNormOptions({c.width})));
    initialise();
  }

  template <class Run>
  ikebana::Loss loss(Run& run, const Tokens& batch) {
    at::Tensor logits = forward(run, batch.input).flatten(0, 1), target = batch.target.flatten();
    return {at::cross_entropy_loss(logits, target, {}, at::Reduction::Sum), count(batch)};
  }
  std::int64_t count(const Tokens& batch) const { return batch.target.numel(); }

  /// Takes (rows, length) bytes, and returns (rows, length, 256) logits.
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& input) {
    at::Tensor x = token(input) + position->weight.slice(0, 0, input.size(1));
    for (Block& block : blocks) x = run(block, x);
    return ikebana::modules::linear(norm(x), token->weight);
  }

  /// Continues `text` by `length` bytes sampled at `temperature`. `text` has at least one byte.
  std::string generate(std::string text, std::size_t length, double temperature = 0.8) {
    at::NoGradGuard no_grad;
    bool was_training = is_training();
    eval();
    for (std::size_t end = text.size() + length; text.size() < end;) {
      auto seen = std::min(text.size(), static_cast<std::size_t>(config.context));
      std::vector<std::int64_t> bytes;
      for (unsigned char c : text.substr(text.size() - seen)) bytes.push_back(c);
      at::Tensor input = torch::tensor(bytes, token->weight.device()).unsqueeze(0);
      at::Tensor logits = forward(ikebana::plain, input).select(1, -1) / temperature;
      text += static_cast<char>(at::multinomial(at::softmax(logits, -1), 1).item<std::int64_t>());
    }
    train(was_training);
    return text;
  }

  GPTConfig config;
  torch::nn::Embedding token{nullptr}, position{nullptr};
  std::vector<Block> blocks;
  torch::nn::LayerNorm norm{nullptr};

 private:
  /// Initialises as in GPT-2: small weights, and smaller ones in deeper models for the layers that
  /// add to the residual.
  void initialise() {
    at::NoGradGuard no_grad;
    double residual = 0.02 / std::sqrt(2.0 * static_cast<double>(config.layers));
    for (auto& item : named_parameters()) {
      if (item.value().dim() < 2) continue;  // norms are initialised to the identity
      bool adds = item.key().ends_with("out.weight") || item.key().ends_with("down.weight");
      item.value().normal_(0, adds ? residual : 0.02);
    }
    for (auto& block : blocks)
      for (auto* layer : {&block->qkv, &block->out, &block->up, &block->down})
        (*layer)->bias.zero_();
  }
};
TORCH_MODULE(GPT);
