#pragma once
// Defines a model that runs out of memory if a microbatch has more rows than there is room for.
#include "compare.hpp"

namespace test {

struct Items {
  at::Tensor input, target;
};
inline Items items(std::int64_t rows, int seed = 1) {
  return {random({rows, 6}, seed), random({rows, 4}, seed + 1)};
}

/// Has dropout, and statistics in a buffer as batch norm has.
struct RoomNetImpl : torch::nn::Module {
  at::Tensor mean = register_buffer("mean", at::zeros({6}));
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 32)),
                    last = register_module("last", torch::nn::Linear(32, 4));
  std::int64_t room = 1 << 20;
  int forwards = 0;
  std::function<void(const Items&)> during_forward = {};

  template <class Run>
  ikebana::Loss loss(Run&, const Items& batch) {
    ++forwards;
    if (during_forward) during_forward(batch);
    if (is_training()) mean.mul_(0.9).add_(batch.input.mean(0));
    const at::Tensor noise = torch::dropout(batch.input - mean, 0.2, is_training());
    if (batch.input.size(0) > room) {
      at::empty({1 << 20}, at::kByte);  // if bytes are counted, the attempt takes many
      throw ikebana::OutOfMemory("no room for so many rows");
    }
    const at::Tensor y = last(at::relu(first(noise)));
    const at::Tensor kept = batch.target > -2;  // a mask
    return {((y - batch.target).square() * kept).sum(), kept.sum(), y};
  }
  ikebana::Count count(const Items& batch) const { return (batch.target > -2).sum(); }
};
TORCH_MODULE(RoomNet);
inline RoomNet room_net(std::int64_t room = 1 << 20) {
  torch::manual_seed(3);
  RoomNet net;
  net->room = room;
  return net;
}

}  // namespace test
