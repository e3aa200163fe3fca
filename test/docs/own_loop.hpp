#pragma once
// A model, its batches and loops by LibTorch alone, for the tests of pieces of the library in a
// loop without a trainer.
#include "test.hpp"

#include <ATen/autocast_mode.h>
#include <ikebana/pieces.hpp>

namespace test::own_loop {

using namespace ikebana;
namespace nn = torch::nn;
using nn::functional::cross_entropy;

struct Rows {
  at::Tensor input, target;
};

struct BlockImpl : nn::Module {
  nn::Linear up = register_module("up", nn::Linear(8, 32));
  nn::Linear down = register_module("down", nn::Linear(32, 8));
  nn::Dropout dropout = register_module("dropout", nn::Dropout(0.1));
  int forwards = 0;
  at::Tensor forward(const at::Tensor& x) {
    ++forwards;
    return x + dropout(down(at::gelu(up(x))));
  }
};
TORCH_MODULE(Block);

struct NetImpl : nn::Module {
  Block block = register_module("block", Block());
  nn::Linear head = register_module("head", nn::Linear(8, 3));
  at::Tensor forward(const at::Tensor& x) { return head(block(x)); }
};
TORCH_MODULE(Net);

inline Net made() {
  torch::manual_seed(0);
  Net net;
  torch::manual_seed(1);  // seeds the masks that dropout draws
  return net;
}

inline std::vector<Rows> drawn() {
  torch::manual_seed(2);
  std::vector<Rows> all;
  for (int i = 0; i < 6; ++i) all.push_back({at::randn({16, 8}), at::randint(3, {16}, at::kLong)});
  return all;
}

/// Calls `train(model, batches)` with a new model, and returns its parameters.
template <class Train>
Tensors after(const Train& train) {
  const std::vector<Rows> batches = drawn();
  Net model = made();
  train(model, batches);
  return ikebana::detail::detached(model->parameters());
}

inline at::Tensor autocast_loss(Net& model, const Rows& batch, at::ScalarType dtype) {
  const pieces::AutocastScope autocast(at::kCPU, dtype);
  return cross_entropy(model->forward(batch.input), batch.target);
}

/// Trains by LibTorch alone; calls `loss(model, batch)`, and `before(model)` before each update.
template <class Loss, class Before>
void by_hand(Net& model, const std::vector<Rows>& batches, const Loss& loss, const Before& before) {
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  for (const Rows& batch : batches) {
    optimizer.zero_grad();
    loss(model, batch).backward();
    before(model);
    optimizer.step();
  }
}
inline at::Tensor plain_loss(Net& model, const Rows& batch) {
  return cross_entropy(model->forward(batch.input), batch.target);
}
/// The loss under autocast, by LibTorch alone.
inline at::Tensor cast_loss(Net& model, const Rows& batch, at::ScalarType dtype) {
  at::autocast::set_autocast_dtype(at::kCPU, dtype);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::Tensor loss = plain_loss(model, batch);
  at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(at::kCPU, false);
  return loss;
}
inline constexpr auto nothing = [](Net&) {};

inline Tensors cloned(const Tensors& tensors) {
  Tensors all;
  for (const at::Tensor& tensor : tensors) all.push_back(tensor.detach().clone());
  return all;
}
/// Trains by LibTorch alone; calls `see(parameters)` after each update.
template <class See>
void each_update(const See& see) {
  after([&](Net& model, const auto& batches) {
    for (const Rows& batch : batches) {
      by_hand(model, {batch}, plain_loss, nothing);  // SGD without momentum has no state
      see(ikebana::detail::detached(model->parameters()));
    }
  });
}

/// Trains under autocast to FP16 with a loss scale by LibTorch alone; returns the last scale.
template <class Clip>
double scaled_by_hand(Net& model, const std::vector<Rows>& batches, double scale,
                      const Clip& clip) {
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  for (const Rows& batch : batches) {
    optimizer.zero_grad();
    (cast_loss(model, batch, at::kHalf) * scale).backward();
    bool is_finite = true;
    for (const at::Tensor& weight : model->parameters()) {
      weight.grad().div_(scale);
      is_finite = is_finite && weight.grad().isfinite().all().item<bool>();
    }
    if (is_finite) clip(model), optimizer.step();
    else scale /= 2;
  }
  return scale;
}

}  // namespace test::own_loop
