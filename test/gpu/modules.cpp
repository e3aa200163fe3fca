#include <ikebana/modules/generate.hpp>
#include <ikebana/modules/linear_cross_entropy.hpp>
#include <ikebana/modules/rms_norm.hpp>

#include "guarantees.hpp"

namespace gpu {

namespace modules_parts {

/// Returns the result of `f` and its gradients with respect to `inputs`, on a device, in a dtype.
template <class F>
Tensors values_and_gradients(const F& f, const Tensors& inputs, c10::Device where,
                             at::ScalarType type) {
  Tensors there;
  for (const auto& x : inputs) there.push_back(x.to(where, type).requires_grad_());
  const at::Tensor y = f(there);
  const at::Tensor seed = at::linspace(-1, 1, y.numel(), y.options()).view_as(y);
  Tensors all = torch::autograd::grad({y}, there, {seed});
  all.push_back(y.detach());
  for (auto& t : all) t = t.cpu();
  return all;
}
/// Compares `f` on the device with `exact` in double precision on the CPU.
template <class F, class Exact>
void agrees(const F& f, const Exact& exact, const Tensors& inputs, at::ScalarType type) {
  Tensors rounded;  // the same inputs for both
  for (const auto& x : inputs) rounded.push_back(x.to(type).to(at::kDouble));
  const Tensors there = values_and_gradients(f, rounded, device(), type);
  const Tensors here = values_and_gradients(exact, rounded, at::kCPU, at::kDouble);
  const double limit = type == at::kFloat ? 1e-4 : 2e-2;
  for (std::size_t i = 0; i < there.size(); ++i) {
    INFO("tensor " << i << " of " << there.size() << " in " << c10::toString(type));
    CHECK(test::worst_relative({there[i]}, {here[i]}) <= limit);
  }
}

/// Returns softmax(q k^T / sqrt(width)) v as the textbook has it. A row without keys gives zeros.
at::Tensor textbook(const Tensors& qkv, const at::Tensor& allowed) {
  at::Tensor scores = at::matmul(qkv[0], qkv[1].transpose(-2, -1)) /
                      std::sqrt(static_cast<double>(qkv[0].size(-1)));
  scores = scores.masked_fill(allowed.logical_not(), -1e30);
  const at::Tensor weights = at::softmax(scores, -1) * allowed.any(-1, true);
  return at::matmul(weights, qkv[2]);
}

}  // namespace modules_parts
using namespace modules_parts;

TEST_CASE("attention's forms agree with the textbook's in double precision") {
  torch::manual_seed(1);
  const Tensors qkv = {torch::randn({2, 3, 40, 32}), torch::randn({2, 3, 40, 32}),
                       torch::randn({2, 3, 40, 32})};
  const at::Tensor causal = at::ones({40, 40}, at::kBool).tril();
  at::Tensor mask = torch::rand({40, 40}) > 0.3;
  mask[7].fill_(false);
  using modules::AttentionForm;
  for (auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (auto form : {AttentionForm::Fastest, AttentionForm::Fused, AttentionForm::Composed,
                      AttentionForm::Widened, AttentionForm::Chunked}) {
      INFO(std::string(modules::name(form)));
      agrees(
          [&](const Tensors& x) {
            return modules::attention(x[0], x[1], x[2], {.is_causal = true, .form = form});
          },
          [&](const Tensors& x) { return textbook(x, causal); }, qkv, type);
      agrees(
          [&](const Tensors& x) {
            return modules::attention(x[0], x[1], x[2],
                                      {.attn_mask = mask.to(device()), .form = form});
          },
          [&](const Tensors& x) { return textbook(x, mask); }, qkv, type);
    }
}
TEST_CASE("rms_norm") {
  torch::manual_seed(1);
  const Tensors inputs = {torch::randn({6, 64}), torch::randn({64})};
  auto norm = [](const Tensors& x) {
    return x[0] * at::rsqrt(x[0].square().mean(-1, true) + 1e-5) * x[1];
  };
  auto layer = [](const Tensors& x) { return at::rms_norm(x[0], {64}, x[1], 1e-5); };
  for (auto type : {at::kFloat, at::kBFloat16}) agrees(layer, norm, inputs, type);
  modules::RMSNorm module(std::vector<std::int64_t>{64}, modules::RMSNormOptions{.eps = 1e-5});
  module->to(device());
  agrees([&](const Tensors& x) { return module->forward(x[0]); },
         [&](const Tensors& x) { return norm({x[0], at::ones({64}, x[0].options())}); },
         {inputs[0]}, at::kFloat);
}
TEST_CASE("linear_cross_entropy, with ignored targets and more rows than a chunk") {
  torch::manual_seed(1);
  const Tensors inputs = {torch::randn({50, 32}), torch::randn({70, 32}) / 4, torch::randn({70})};
  at::Tensor target = torch::randint(70, {50}, at::kLong);
  target.slice(0, 10, 20).fill_(-100);
  for (bool chunks : {false, true}) {
    auto loss = [&](const Tensors& x) {
      const auto there = target.to(x[0].device());
      return modules::linear_cross_entropy(
                 x[0], x[1], there,
                 {.bias = x[2], .label_smoothing = 0.1, .chunk_rows = chunks ? 16 : 0})
          .sum;
    };
    auto exact = [&](const Tensors& x) {
      return at::cross_entropy_loss(at::linear(x[0], x[1], x[2]), target, {}, at::Reduction::Sum,
                                    -100, 0.1);
    };
    for (auto type : {at::kFloat, at::kBFloat16}) agrees(loss, exact, inputs, type);
  }
}
TEST_CASE("generate draws the same tokens as on the CPU, with and without a cache") {
  auto sentence = [](c10::Device where, bool cached, double temperature) {
    torch::manual_seed(2);
    torch::nn::Embedding embed(tokens, 32);
    embed->to(where);
    modules::KVCache cache(
        {.layers = 1, .batch = 2, .heads = 1, .max_length = 32, .width = 32, .device = where});
    const auto prompt = at::arange(6).view({2, 3}).to(where);
    const modules::GenerateOptions options{.max_new_tokens = 12,
                                           .sampling = {.temperature = temperature}};
    auto logits = [&](const at::Tensor& keys, const at::Tensor& query) {
      const auto y = modules::attention(query, keys, keys);
      return at::linear(y.squeeze(1), embed->weight);
    };
    if (!cached)
      return modules::generate(
                 [&](const at::Tensor& all) {
                   const auto x = embed(all).unsqueeze(1);
                   return logits(x, x.slice(2, -1));
                 },
                 prompt, options)
          .cpu();
    return modules::generate(
               [&](const at::Tensor& now, auto& kept) {
                 const auto x = embed(now).unsqueeze(1);
                 return logits(std::get<0>(kept.append(0, x, x)), x.slice(2, -1));
               },
               prompt, cache, options)
        .cpu();
  };
  for (double temperature : {0.0, 1.0}) {
    const auto here = sentence(at::kCPU, false, temperature);
    CHECK(here.size(1) == 15);
    CHECK(test::same_bits(sentence(device(), false, temperature), here));
    CHECK(test::same_bits(sentence(device(), true, temperature), here));
  }
}

}  // namespace gpu
