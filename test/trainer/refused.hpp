#pragma once
// Defines trainers that must refuse their input, at the first step and later.
#include "compare.hpp"

/// The string that describes what is wrong is empty.
#define WELL(...) CHECK(std::string() == (__VA_ARGS__))

namespace test::bad {

struct Rows {
  at::Tensor input, target;
};
struct BlockImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 3));
  at::Tensor forward(const at::Tensor& x) { return at::tanh(w(x)); }
};
TORCH_MODULE(Block);
struct NetImpl : torch::nn::Module {
  using units = ikebana::Units<Block>;
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 5));
  Block block = register_module("block", Block());
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return w(run(block, x));
  }
};
TORCH_MODULE(Net);
struct EmptyImpl : torch::nn::Module {
  template <class Run>
  ikebana::Loss loss(Run&, const Rows& batch) {
    return {batch.input.sum(), 1};
  }
};
TORCH_MODULE(Empty);

inline Rows some(std::int64_t n = 4) { return {at::ones({n, 3}), at::arange(n) % 5}; }
using Classifier = ikebana::Trainer<Net, ikebana::CrossEntropyLoss>;

template <class E, class Batch>
std::string refused(const Batch& batch, const Words& words) {
  Classifier trainer{Net()};
  auto step = [&] { trainer.step(batch); };
  for (int steps = 0; steps < 2; ++steps)  // at the first step, and later
    if (auto wrong = undone<E>(trainer, some(), step, words); !wrong.empty()) return wrong;
  return {};
}
template <class F>
std::string refused_loss(F loss, const Words& words) {
  bool bad = false;
  auto objective = [&](auto& run, Net& model, const Rows& batch) {
    if (bad) return loss(run, model, batch);
    auto y = model->forward(run, batch.input);
    return ikebana::Loss{y.pow(2).sum(), y.numel(), y};
  };
  ikebana::Trainer trainer{Net(), objective};
  auto step = [&] {
    struct Good {
      bool& flag;
      ~Good() { flag = false; }
    } good{bad};
    bad = true;
    trainer.step(some());
  };
  for (int steps = 0; steps < 2; ++steps)
    if (auto wrong = undone<ikebana::BadModel>(trainer, some(), step, words); !wrong.empty())
      return wrong;
  return {};
}

}  // namespace test::bad
