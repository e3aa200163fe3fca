#pragma once
// Defines the models of the rows with their batches, which are made from random numbers.
#include "row.hpp"

namespace parity {

/// `make()` gives the only batch of each step.
template <class Make>
auto each_step(Make&& make) {
  std::vector<std::vector<decltype(make())>> batches;
  for (std::int64_t i = 0; i < steps; ++i) batches.push_back({make()});
  return batches;
}

inline Work<GPT> gpt_of(const GPTConfig& c, std::int64_t rows) {
  std::string net = net_json("GPT", c);
  GPT model(c);
  return {net, model, each_step([&] {
            at::Tensor text = torch::randint(256, {rows, c.context + 1}, at::kLong);
            return Batch{text.slice(1, 0, c.context), text.slice(1, 1)};
          })};
}
inline Work<GPT> gpt() { return gpt_of({.layers = 2, .width = 32, .heads = 2, .context = 32}, 10); }
/// It is so long that LibTorch's own attention is the fastest form in BF16 as well.
inline Work<GPT> long_gpt() {
  return gpt_of({.layers = 1, .width = 32, .heads = 2, .context = 576}, 2);
}

inline Work<nn::Sequential> mlp_of(double dropout) {
  std::string net = object_json([&](JsonWriter& out) {
    out.object("MLP", [&] { out.member("width", 16), out.member("dropout", dropout); });
  });
  nn::Sequential model = mlp(16, 3, dropout);
  return {net, model, each_step([] {
            return Batch{torch::randn({24, 16}), torch::randint(16, {24}, at::kLong)};
          })};
}
inline Work<nn::Sequential> mlp16() { return mlp_of(0); }
inline Work<nn::Sequential> dropping_mlp() { return mlp_of(0.1); }
/// Targets are numbers, for MSELoss.
inline Work<nn::Sequential> fitting_mlp() {
  auto work = mlp_of(0);
  for (auto& parts : work.batches) parts[0].target = torch::randn({24, 16});
  return work;
}

inline Work<ConvNet> conv() {
  return {"{\"ConvNet\":{\"width\":8,\"classes\":5}}", ConvNet(8, 5), each_step([] {
            return Batch{torch::randn({12, 3, 12, 12}), torch::randint(5, {12}, at::kLong)};
          })};
}

/// Sequences of unequal length: targets beyond their end are masked.
inline Work<Tagger> lstm() {
  return {"{\"Tagger\":{\"symbols\":20,\"width\":16,\"classes\":6}}", Tagger(20, 16, 6),
          each_step([] {
            at::Tensor input = torch::randint(20, {12, 9}, at::kLong);
            at::Tensor length = torch::randint(1, 10, {12, 1}, at::kLong);
            at::Tensor target = (input * 7 + 1) % 6;
            return Batch{input, target.masked_fill(torch::arange(9) >= length, -100)};
          })};
}

/// Makes bags of few of the symbols, so that most rows of the embedding have no gradient in each
/// step.
inline Work<Bag> bag() {
  return {"{\"Bag\":{\"symbols\":60,\"width\":16,\"classes\":6}}", Bag(60, 16, 6), each_step([] {
            at::Tensor input = torch::randint(60, {10, 3}, at::kLong);
            return Batch{input, input.sum(1) % 6};
          })};
}

/// Returns these rows as a range of batches of unequal size.
template <auto make>
auto ragged() {
  auto work = make();
  for (auto& parts : work.batches) {
    Batch whole = parts[0];
    std::int64_t all = rows(whole);
    std::int64_t half = all / 2;
    parts = {narrow(whole, 0, 1), narrow(whole, 1, half), narrow(whole, 1 + half, all - 1 - half)};
  }
  return work;
}

}  // namespace parity
