#pragma once
// Every program here begins with this, precompiled: the library, a batch, and models as users write
// them.
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/loss.h>
#include <torch/optim/adamw.h>
#include <ikebana.hpp>
#include <ikebana/modules/generate.hpp>

using namespace ikebana;

struct Batch {
  torch::Tensor input, target;
};

struct BlockImpl : torch::nn::Module {
  torch::nn::Linear linear{nullptr};
  BlockImpl() { linear = register_module("linear", torch::nn::Linear(4, 4)); }
  torch::Tensor forward(const torch::Tensor& x) { return linear(x).relu(); }
};
TORCH_MODULE(Block);

/// Has units, a loss, and a forward that reaches the units.
struct NetImpl : torch::nn::Module {
  using units = Units<Block>;
  Block block;
  NetImpl() { register_module("block", block); }

  template <class Run>
  torch::Tensor forward(Run& run, const torch::Tensor& x) {
    return run(block, x);
  }
  template <class Run>
  Loss loss(Run& run, const Batch& batch) {
    return {(forward(run, batch.input) - batch.target).square().sum(), batch.target.numel()};
  }
};
TORCH_MODULE(Net);

/// Has neither units nor a loss.
struct BareImpl : torch::nn::Module {
  torch::nn::Linear linear{nullptr};
  BareImpl() { linear = register_module("linear", torch::nn::Linear(4, 4)); }
  torch::Tensor forward(const torch::Tensor& x) { return linear(x); }
};
TORCH_MODULE(Bare);
