#pragma once
// Defines the models of the benchmark, written without ikebana.
#include <ATen/autocast_mode.h>
#include <ikebana/modules/attention.hpp>

#include "../gpu/resnet.hpp"
#include "worker.hpp"

namespace bench {

/// Returns logits; `block` computes the i-th block of the model.
struct Model : torch::nn::Module {
  using Around = std::function<at::Tensor(std::size_t block, const at::Tensor& x)>;
  virtual at::Tensor forward(const at::Tensor& input, const Around& around) = 0;
  virtual at::Tensor block(std::size_t i, const at::Tensor& x) = 0;
};

/// Calls a layer as idiomatic code does, or by its one fused operator; they differ for 3-D inputs.
struct Linear {
  torch::nn::Linear layer{nullptr};
  bool fused = false;
  at::Tensor operator()(const at::Tensor& x) {
    return fused ? at::linear(x, layer->weight, layer->bias) : layer(x);
  }
};

struct MLP : Model {
  explicit MLP(std::int64_t width) {
    for (int i = 0; i < 3; ++i)
      layers[i] = register_module(std::to_string(2 * i), torch::nn::Linear(width, width));
  }
  at::Tensor forward(const at::Tensor& input, const Around& around) override {
    at::Tensor x = input;
    for (std::size_t i = 0; i < 5; ++i) x = around ? around(i, x) : block(i, x);
    return x;
  }
  at::Tensor block(std::size_t i, const at::Tensor& x) override {
    return i % 2 ? at::gelu(x) : layers[i / 2](x);
  }
  torch::nn::Linear layers[3] = {nullptr, nullptr, nullptr};
};

struct Block : torch::nn::Module {
  Block(std::int64_t width, std::int64_t h, bool f) : heads(h), fused(f) {
    using torch::nn::LayerNormOptions;
    norm1 = register_module("norm1", torch::nn::LayerNorm(LayerNormOptions({width})));
    qkv = {register_module("qkv", torch::nn::Linear(width, 3 * width)), fused};
    out = {register_module("out", torch::nn::Linear(width, width)), fused};
    norm2 = register_module("norm2", torch::nn::LayerNorm(LayerNormOptions({width})));
    up = {register_module("up", torch::nn::Linear(width, 4 * width)), fused};
    down = {register_module("down", torch::nn::Linear(4 * width, width)), fused};
  }
  at::Tensor forward(at::Tensor x) {
    x = x + drop(out(attend(qkv(norm1(x)))));
    return x + drop(down(at::gelu(up(norm2(x)))));
  }
  at::Tensor drop(const at::Tensor& x) { return at::dropout(x, 0, is_training()); }
  at::Tensor attend(const at::Tensor& x) {
    auto parts = x.unflatten(-1, {3, heads, -1}).permute({2, 0, 3, 1, 4}).unbind();
    auto y = fused ? fastest(parts[0], parts[1], parts[2])
                   : at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0, true);
    return y.transpose(1, 2).flatten(2);
  }
  /// Uses the form that is fastest in training also in a forward without gradients that is computed
  /// again later, so that both give the same result.
  static at::Tensor fastest(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    ikebana::modules::AttentionOptions options{.is_causal = true};
    if (!at::GradMode::is_enabled()) {
      at::AutoGradMode enable(true);
      at::Tensor trained = q.detach().set_requires_grad(true);
      options.form = ikebana::modules::attention_form(trained, k, v, options);
    }
    return ikebana::modules::attention(q, k, v, options);
  }
  std::int64_t heads;
  bool fused;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  Linear qkv, out, up, down;
};

struct GPT : Model {
  GPT(const Setting& setting, bool fused) {
    auto width = setting.number("width");
    token = register_module("token", torch::nn::Embedding(setting.symbols(), width));
    position = register_module("position", torch::nn::Embedding(setting.number("context"), width));
    for (std::int64_t i = 0; i < setting.number("layers"); ++i)
      blocks.push_back(
          register_module("block" + std::to_string(i),
                          std::make_shared<Block>(width, setting.number("heads"), fused)));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  }
  at::Tensor forward(const at::Tensor& input, const Around& around) override {
    at::Tensor x = token(input) + position->weight.slice(0, 0, input.size(1));
    for (std::size_t i = 0; i < blocks.size(); ++i) x = around ? around(i, x) : block(i, x);
    return at::linear(norm(x), token->weight).flatten(0, 1);
  }
  at::Tensor block(std::size_t i, const at::Tensor& x) override { return blocks[i]->forward(x); }

  torch::nn::Embedding token{nullptr}, position{nullptr};
  std::vector<std::shared_ptr<Block>> blocks;
  torch::nn::LayerNorm norm{nullptr};
};

/// Blocks are not computed apart here: no row of this model has a checkpoint.
struct ImageModel : Model {
  explicit ImageModel(const Setting& setting)
      : net(register_module("net", ResNet(setting.number("width"), setting.symbols(),
                                          setting.has_small_images()))) {}
  at::Tensor forward(const at::Tensor& input, const Around&) override { return net(input); }
  at::Tensor block(std::size_t, const at::Tensor& x) override { return x; }
  ResNet net;
};

inline std::shared_ptr<Model> make_model(const Setting& setting, bool fused) {
  if (setting.is_gpt()) return std::make_shared<GPT>(setting, fused);
  if (setting.is_resnet()) return std::make_shared<ImageModel>(setting);
  return std::make_shared<MLP>(setting.number("width"));
}

/// Autocast by LibTorch's C++ functions.
class Autocast {
 public:
  Autocast(bool on, c10::DeviceType device) : on_(on), device_(device) {
    if (!on_) return;
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!on_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_;
  c10::DeviceType device_;
};

}  // namespace bench
