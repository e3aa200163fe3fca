#pragma once
// A language model of stacked LSTMs. Zaremba et al., Recurrent Neural Network Regularization, 2014:
// dropout between the layers, none from a step of the text to the next.
#include <torch/torch.h>

#include <ikebana.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "common.hpp"

/// The paper's medium model is {.vocabulary = 10000, .layers = 2, .width = 650, .dropout = 0.5}.
struct LSTMConfig {
  std::int64_t vocabulary = 256, layers = 2, width = 256;
  double dropout = 0;
};

inline Tokens random_batch(const LSTMConfig& c, std::int64_t rows, std::int64_t length) {
  return random_tokens(rows, length, c.vocabulary);
}

/// One LSTM over a whole text, and dropout of what it passes on. It begins with a state of zeros,
/// so each row of a batch is a text of its own.
struct LSTMLayerImpl : torch::nn::Module {
  explicit LSTMLayerImpl(const LSTMConfig& c) : p(c.dropout) {
    using namespace torch::nn;
    lstm = register_module("lstm", LSTM(LSTMOptions(c.width, c.width).batch_first(true)));
  }
  /// Takes (rows, length, width), and returns the same shape.
  at::Tensor forward(const at::Tensor& x) {
    return at::dropout(std::get<0>(lstm(x)), p, is_training());
  }

  double p;
  torch::nn::LSTM lstm{nullptr};
};
TORCH_MODULE(LSTMLayer);

/// Predicts the next token. Initialised as PyTorch's example word_language_model: the embedding and
/// the head uniform in [-0.1, 0.1], the LSTMs as PyTorch's.
struct LSTMLanguageModelImpl : torch::nn::Module {
  using units = ikebana::Units<LSTMLayer>;

  explicit LSTMLanguageModelImpl(const LSTMConfig& c) : p(c.dropout) {
    using namespace torch::nn;
    embedding = register_module("embedding", Embedding(c.vocabulary, c.width));
    for (std::int64_t i = 0; i < c.layers; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), LSTMLayer(c)));
    head = register_module("head", Linear(c.width, c.vocabulary));
    for (const at::Tensor& weight : {embedding->weight, head->weight})
      init::uniform_(weight, -0.1, 0.1);
    init::zeros_(head->bias);
  }

  template <class Run>
  ikebana::Loss loss(Run& run, const Tokens& batch) {
    at::Tensor logits = forward(run, batch.input).flatten(0, 1), target = batch.target.flatten();
    return {at::cross_entropy_loss(logits, target, {}, at::Reduction::Sum), count(batch)};
  }
  std::int64_t count(const Tokens& batch) const { return batch.target.numel(); }

  /// Takes (rows, length) tokens, and returns (rows, length, vocabulary) logits.
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& input) {
    at::Tensor x = at::dropout(embedding(input), p, is_training());
    for (LSTMLayer& layer : layers) x = run(layer, x);
    return linear(head, x);
  }

  double p;
  torch::nn::Embedding embedding{nullptr};
  std::vector<LSTMLayer> layers;
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(LSTMLanguageModel);
