// Examples of the reference: modules, which need no trainer.
#include <ikebana/modules/attention.hpp>
#include <ikebana/modules/bn_relu.hpp>
#include <ikebana/modules/generate.hpp>
#include <ikebana/modules/kv_cache.hpp>
#include <ikebana/modules/linear.hpp>
#include <ikebana/modules/linear_cross_entropy.hpp>
#include <ikebana/modules/rms_norm.hpp>
#include <ikebana/modules/rotary.hpp>
#include <ikebana/modules/swiglu.hpp>
#include <ikebana/modules/sync_batch_norm.hpp>

#include "policies.hpp"

namespace test::reference::of_modules {

TEST_CASE("reference: attention") {
  // example: modules::attention, modules::AttentionOptions
  at::Tensor query = at::randn({2, 4, 16, 32}), key = query.clone(), value = query.clone();
  modules::AttentionOptions options{.is_causal = true};
  at::Tensor out = modules::attention(query, key, value, options);  // (2, 4, 16, 32)
  // end

  // example: modules::AttentionForm, modules::attention_form
  modules::AttentionForm form = modules::attention_form(query, key, value, options);
  options.form = modules::AttentionForm::Composed;  // which can be differentiated twice
  // end
  CHECK(out.sizes() == query.sizes());
  CHECK((form == modules::AttentionForm::Fused));
}

TEST_CASE("reference: a cache of keys and values") {
  at::Tensor query = at::randn({2, 4, 3, 16}), key = at::randn({2, 4, 3, 16}), value = key.clone();
  // example: modules::KVCache, modules::KVCacheOptions, modules::causal_at_end
  modules::KVCacheOptions size{.layers = 12, .batch = 2, .heads = 4, .max_length = 64, .width = 16};
  modules::KVCache cache(size);
  auto [keys, values] = cache.append(/*layer=*/0, key, value);  // adds the next positions
  at::Tensor out = modules::attention(query, keys, values, modules::causal_at_end(query, keys));
  // end
  CHECK(cache.length() == 3);
  CHECK(out.sizes() == query.sizes());
}

TEST_CASE("reference: generating") {
  torch::manual_seed(0);
  nn::Sequential model(nn::Embedding(30, 8), nn::Linear(8, 30));
  const at::Tensor prompt = at::randint(30, {2, 3}, at::kLong);
  // example: modules::generate, modules::GenerateOptions, modules::SamplingOptions
  modules::SamplingOptions sampling{.temperature = 0.8, .top_k = 10, .top_p = 0.9};
  modules::GenerateOptions options{.max_new_tokens = 5, .sampling = sampling, .seed = 7};
  auto logits_of = [&](const at::Tensor& tokens) { return model->forward(tokens); };
  at::Tensor tokens = modules::generate(logits_of, prompt, options);  // (2, 8)
  // end
  CHECK(tokens.sizes() == at::IntArrayRef{2, 8});

  const at::Tensor logits = at::randn({2, 30});
  // example: modules::probabilities
  at::Tensor p = modules::probabilities(logits, {.temperature = 0.8, .top_k = 10});
  at::Tensor drawn = at::multinomial(p, 1);
  // end
  CHECK(p.count_nonzero().item<std::int64_t>() == 20);
  CHECK(drawn.sizes() == at::IntArrayRef{2, 1});
}

TEST_CASE("reference: the cross entropy of a large head") {
  const at::Tensor hidden = at::randn({2, 64, 32}), target = at::randint(1000, {2, 64}, at::kLong);
  const at::Tensor head = at::zeros({1000, 32}).requires_grad_();
  // example: modules::linear_cross_entropy, modules::LinearCrossEntropyOptions
  modules::LinearCrossEntropyOptions options{.label_smoothing = 0.1};
  Loss loss = modules::linear_cross_entropy(hidden, head, target, options);  // no logits are kept
  // end
  CHECK(loss.count.value() == 128);
}

TEST_CASE("reference: the layers of a Llama") {
  // example: modules::RMSNorm, modules::RMSNormOptions, modules::SwiGLU
  modules::RMSNorm norm(64, modules::RMSNormOptions{.eps = 1e-6});
  modules::SwiGLU mlp(/*width=*/64, /*hidden=*/172);
  at::Tensor x = at::randn({2, 10, 64});
  x = x + mlp(norm(x));
  // end
  CHECK(x.sizes() == at::IntArrayRef{2, 10, 64});

  // example: modules::Rotary
  const modules::Rotary rotary(/*width=*/16);                            // the width of one head
  at::Tensor rotated = rotary(at::randn({2, 4, 10, 16}), /*offset=*/5);  // positions 5 to 14
  // end
  CHECK(rotated.sizes() == at::IntArrayRef{2, 4, 10, 16});

  // example: modules::RotaryScaling
  const modules::RotaryScaling of_llama_3_1{.factor = 8, .original_max_position_embeddings = 8192};
  const modules::Rotary slower(/*width=*/16, /*base=*/5e5, of_llama_3_1);
  // end
  CHECK(slower(rotated).sizes() == rotated.sizes());

  const at::Tensor hidden = at::randn({3, 64}), weight = at::randn({30, 64});
  // example: modules::linear
  at::Tensor logits = modules::linear(hidden, weight);  // within `generate` the faster library's
  // end
  CHECK(same_bits(logits, at::linear(hidden, weight)));
}

TEST_CASE("reference: batch norms") {
  // example: modules::BNReLU2d
  modules::BNReLU2d norm(8);
  at::Tensor x = at::randn({4, 8, 6, 6});
  at::Tensor y = norm(x), sum = norm(x, /*residual=*/y);
  // end
  CHECK(sum.min().item<double>() >= 0);

  // example: modules::SyncBatchNorm
  nn::Sequential layers(nn::Linear(8, 16), modules::SyncBatchNorm(16), nn::ReLU());
  at::Tensor out = layers->forward(at::randn({4, 8}));  // in a trainer: over the rows of all ranks
  // end
  CHECK(out.sizes() == at::IntArrayRef{4, 16});
}

}  // namespace test::reference::of_modules
