#pragma once
// Defines a Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU. Parameters have the
// names of Hugging Face's LlamaForCausalLM, and LlamaConfig has the fields of its config.json.
#include <torch/torch.h>

#include <ikebana.hpp>
#include <ikebana/modules/generate.hpp>
#include <ikebana/modules/linear.hpp>
#include <ikebana/modules/linear_cross_entropy.hpp>
#include <ikebana/modules/rms_norm.hpp>
#include <ikebana/modules/rotary.hpp>
#include <ikebana/modules/swiglu.hpp>
#include <string>
#include <vector>

#include "common.hpp"

struct LlamaConfig {
  std::int64_t vocab_size = 256, hidden_size = 128, intermediate_size = 352;
  std::int64_t num_hidden_layers = 4, num_attention_heads = 4, num_key_value_heads = 2;
  double rms_norm_eps = 1e-6, rope_theta = 10000;
  bool tie_word_embeddings = false;
  std::int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  ikebana::modules::RotaryScaling rope_scaling = {};

  std::int64_t head_width() const {
    return head_dim > 0 ? head_dim : hidden_size / num_attention_heads;
  }
};

inline Tokens random_batch(const LlamaConfig& c, std::int64_t rows, std::int64_t length) {
  return random_tokens(rows, length, c.vocab_size);
}

inline torch::nn::Linear without_bias(std::int64_t from, std::int64_t to) {
  return torch::nn::Linear(torch::nn::LinearOptions(from, to).bias(false));
}
inline ikebana::modules::RMSNorm llama_norm(const LlamaConfig& c) {
  return ikebana::modules::RMSNorm(c.hidden_size,
                                   ikebana::modules::RMSNormOptions{.eps = c.rms_norm_eps});
}

/// The cache and the layer whose keys and values it holds; no cache in training.
struct Seen {
  ikebana::modules::KVCache* cache = nullptr;
  std::int64_t layer = 0;
};

/// Several query heads share one key head and one value head.
struct LlamaAttentionImpl : torch::nn::Module {
  LlamaAttentionImpl(const LlamaConfig& c, ikebana::modules::Rotary turn)
      : width(c.head_width()), rotary(std::move(turn)) {
    const auto of_keys = c.num_key_value_heads * width;
    q_proj = register_module("q_proj", without_bias(c.hidden_size, c.num_attention_heads * width));
    k_proj = register_module("k_proj", without_bias(c.hidden_size, of_keys));
    v_proj = register_module("v_proj", without_bias(c.hidden_size, of_keys));
    o_proj = register_module("o_proj", without_bias(c.num_attention_heads * width, c.hidden_size));
  }
  at::Tensor forward(const at::Tensor& x, Seen seen) {
    const auto position = seen.cache ? seen.cache->length(seen.layer) : 0;
    const auto q = rotary(heads(q_proj, x), position);
    auto k = rotary(heads(k_proj, x), position), v = heads(v_proj, x);
    if (seen.cache) std::tie(k, v) = seen.cache->append(seen.layer, k, v);
    auto options = ikebana::modules::causal_at_end(q, k);
    options.enable_gqa = true;
    const auto y = ikebana::modules::attention(q, k, v, options);
    return ikebana::modules::linear(y.transpose(1, 2).flatten(2), o_proj->weight);
  }
  /// Takes (rows, length, hidden_size), and returns (rows, heads, length, width).
  at::Tensor heads(const torch::nn::Linear& project, const at::Tensor& x) const {
    return ikebana::modules::linear(x, project->weight).unflatten(-1, {-1, width}).transpose(1, 2);
  }

  std::int64_t width;
  ikebana::modules::Rotary rotary;
  torch::nn::Linear q_proj{nullptr}, k_proj{nullptr}, v_proj{nullptr}, o_proj{nullptr};
};
TORCH_MODULE(LlamaAttention);

/// Attention, then an MLP; each reads a normalised copy of the residual that it adds to.
struct LlamaBlockImpl : torch::nn::Module {
  LlamaBlockImpl(const LlamaConfig& c, const ikebana::modules::Rotary& rotary) {
    self_attn = register_module("self_attn", LlamaAttention(c, rotary));
    mlp = register_module("mlp", ikebana::modules::SwiGLU(c.hidden_size, c.intermediate_size));
    input_layernorm = register_module("input_layernorm", llama_norm(c));
    post_attention_layernorm = register_module("post_attention_layernorm", llama_norm(c));
  }
  at::Tensor forward(at::Tensor x, Seen seen = {}) {
    x = x + self_attn(input_layernorm(x), seen);
    return x + mlp(post_attention_layernorm(x));
  }

  LlamaAttention self_attn{nullptr};
  ikebana::modules::SwiGLU mlp{nullptr};
  ikebana::modules::RMSNorm input_layernorm{nullptr}, post_attention_layernorm{nullptr};
};
TORCH_MODULE(LlamaBlock);

/// The whole model without its head.
struct LlamaModelImpl : torch::nn::Module {
  explicit LlamaModelImpl(const LlamaConfig& c) {
    embed_tokens =
        register_module("embed_tokens", torch::nn::Embedding(c.vocab_size, c.hidden_size));
    layers = register_module("layers", torch::nn::ModuleList());
    const ikebana::modules::Rotary rotary(c.head_width(), c.rope_theta, c.rope_scaling);
    for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) {
      blocks.push_back(LlamaBlock(c, rotary));
      layers->push_back(blocks.back());
    }
    norm = register_module("norm", llama_norm(c));
  }

  torch::nn::Embedding embed_tokens{nullptr};
  torch::nn::ModuleList layers{nullptr};
  std::vector<LlamaBlock> blocks;
  ikebana::modules::RMSNorm norm{nullptr};
};
TORCH_MODULE(LlamaModel);

/// Predicts the next token. The loss never holds all logits at once; `logits` returns them.
struct LlamaImpl : torch::nn::Module {
  using units = ikebana::Units<LlamaBlock>;

  explicit LlamaImpl(const LlamaConfig& c) : config(c) {
    model = register_module("model", LlamaModel(c));
    if (!c.tie_word_embeddings)
      lm_head = register_module("lm_head", without_bias(c.hidden_size, c.vocab_size));
    const at::NoGradGuard no_grad;
    for (auto& p : parameters())
      if (p.dim() > 1) p.normal_(0, 0.02);
  }

  template <class Run, class Batch>
  ikebana::Loss loss(Run& run, const Batch& batch) {
    return ikebana::modules::linear_cross_entropy(hidden(run, batch.input), head(), batch.target);
  }
  template <class Batch>
  std::int64_t count(const Batch& batch) const {
    return batch.target.numel();
  }

  /// Takes (rows, length) tokens, and returns (rows, length, vocab_size) logits.
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& tokens) {
    return ikebana::modules::linear(hidden(run, tokens), head());
  }
  template <class Run>
  at::Tensor hidden(Run& run, const at::Tensor& tokens) {
    auto x = model->embed_tokens(tokens);
    for (LlamaBlock& block : model->blocks) x = run(block, x);
    return model->norm(x);
  }
  /// Computes logits without a run; with a cache, `tokens` follow the tokens that it holds.
  at::Tensor logits(const at::Tensor& tokens, ikebana::modules::KVCache* cache = nullptr) {
    auto x = model->embed_tokens(tokens);
    for (std::size_t i = 0; i < model->blocks.size(); ++i)
      x = model->blocks[i](x, Seen{cache, static_cast<std::int64_t>(i)});
    return ikebana::modules::linear(model->norm(x), head());
  }
  ikebana::modules::KVCache cache(std::int64_t rows, std::int64_t length) const {
    const auto& weight = model->embed_tokens->weight;
    return ikebana::modules::KVCache({.layers = config.num_hidden_layers,
                                      .batch = rows,
                                      .heads = config.num_key_value_heads,
                                      .max_length = length,
                                      .width = config.head_width(),
                                      .dtype = weight.scalar_type(),
                                      .device = weight.device()});
  }
  /// Returns what `modules::generate` calls for the logits of new tokens.
  auto step() {
    return [this](const at::Tensor& tokens, ikebana::modules::KVCache& seen) {
      return logits(tokens, &seen);
    };
  }
  /// Continues each row of `prompt`, (rows, length) tokens.
  at::Tensor generate(const at::Tensor& prompt, const ikebana::modules::GenerateOptions& options) {
    auto seen = cache(prompt.size(0), prompt.size(1) + options.max_new_tokens);
    return ikebana::modules::generate(step(), prompt, seen, options);
  }
  /// Continues prompts of unequal lengths, (length) tokens each.
  std::vector<at::Tensor> generate(const std::vector<at::Tensor>& prompts,
                                   const ikebana::modules::GenerateOptions& options) {
    std::int64_t longest = 0;
    for (const auto& prompt : prompts) longest = std::max(longest, prompt.size(0));
    auto seen = cache(static_cast<std::int64_t>(prompts.size()), longest + options.max_new_tokens);
    return ikebana::modules::generate(step(), prompts, seen, options);
  }
  const at::Tensor& head() const {
    return (lm_head ? lm_head->weight : model->embed_tokens->weight);
  }

  LlamaConfig config;
  LlamaModel model{nullptr};
  torch::nn::Linear lm_head{nullptr};
};
TORCH_MODULE(Llama);
