#pragma once
// The models that train here and in Python; nets.py has their references, with the same names of
// parameters. The GPT is that of the examples.
#include <models/gpt.hpp>

namespace parity {

namespace nn = torch::nn;

/// Makes linear layers, all `width` wide, with GELU between them, and with dropout if `dropout` is
/// set.
inline nn::Sequential mlp(std::int64_t width, std::int64_t layers = 3, double dropout = 0) {
  nn::Sequential net;
  for (std::int64_t i = 0; i < layers; ++i) {
    if (i > 0) net->push_back(nn::GELU());
    if (i > 0 && dropout > 0) net->push_back(nn::Dropout(dropout));
    net->push_back(nn::Linear(width, width));
  }
  return net;
}

/// Two convolutions with batch norm: (rows, 3, height, width) images to (rows, classes) logits.
struct ConvNetImpl : nn::Module {
  ConvNetImpl(std::int64_t width, std::int64_t classes) {
    auto three = [](std::int64_t from, std::int64_t to) {
      return nn::Conv2d(nn::Conv2dOptions(from, to, 3).padding(1).bias(false));
    };
    conv1 = register_module("conv1", three(3, width));
    norm1 = register_module("norm1", nn::BatchNorm2d(width));
    conv2 = register_module("conv2", three(width, 2 * width));
    norm2 = register_module("norm2", nn::BatchNorm2d(2 * width));
    head = register_module("head", nn::Linear(2 * width, classes));
  }
  at::Tensor forward(at::Tensor x) {
    x = at::max_pool2d(at::relu(norm1(conv1(x))), 2);
    x = at::relu(norm2(conv2(x)));
    return head(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1));
  }

  nn::Conv2d conv1{nullptr}, conv2{nullptr};
  nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
  nn::Linear head{nullptr};
};
TORCH_MODULE(ConvNet);

/// A label for every symbol of a sequence: (rows, length) to logits (rows, classes, length).
struct TaggerImpl : nn::Module {
  TaggerImpl(std::int64_t symbols, std::int64_t width, std::int64_t classes) {
    embed = register_module("embed", nn::Embedding(symbols, width));
    lstm = register_module("lstm", nn::LSTM(nn::LSTMOptions(width, width).batch_first(true)));
    head = register_module("head", nn::Linear(width, classes));
  }
  at::Tensor forward(at::Tensor x) { return head(std::get<0>(lstm(embed(x)))).transpose(1, 2); }

  nn::Embedding embed{nullptr};
  nn::LSTM lstm{nullptr};
  nn::Linear head{nullptr};
};
TORCH_MODULE(Tagger);

/// The class of a bag of symbols, whose embedding has sparse gradients.
struct BagImpl : nn::Module {
  BagImpl(std::int64_t symbols, std::int64_t width, std::int64_t classes) {
    embed = register_module("embed",
                            nn::EmbeddingBag(nn::EmbeddingBagOptions(symbols, width).sparse(true)));
    head = register_module("head", nn::Linear(width, classes));
  }
  at::Tensor forward(at::Tensor x) { return head(embed(x)); }

  nn::EmbeddingBag embed{nullptr};
  nn::Linear head{nullptr};
};
TORCH_MODULE(Bag);

}  // namespace parity
