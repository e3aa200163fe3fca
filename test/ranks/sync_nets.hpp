#pragma once
// Defines a model with batch norm, in a unit and in the root, of which the layer is chosen.
#include <ikebana/modules/sync_batch_norm.hpp>

#include "groups.hpp"

namespace test::ranks::sync_nets {

using namespace ikebana;
using modules::SyncBatchNorm;
using torch::nn::BatchNorm1d;
using torch::nn::BatchNormOptions;

/// A layer in a unit, and one in the root.
template <class Norm>
struct NormNetImpl : torch::nn::Module {
  struct BlockImpl : torch::nn::Module {
    torch::nn::Linear layer = register_module("layer", torch::nn::Linear(8, 8));
    Norm norm = register_module("norm", Norm(8));
    at::Tensor forward(const at::Tensor& x) { return x + at::tanh(norm(layer(x))); }
  };
  using Block = torch::nn::ModuleHolder<BlockImpl>;
  using units = Units<Block>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(5, 8));
  Norm norm = register_module("norm", Norm(BatchNormOptions(8).momentum(std::nullopt)));
  Block first = register_module("first", Block(std::make_shared<BlockImpl>()));
  Block second = register_module("second", Block(std::make_shared<BlockImpl>()));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(8, 3));
  std::function<void(const at::Tensor&)> before_second = {}, after_second = {};
  bool penalty = false;

  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor x = run(first, norm(embed(batch.input)));
    if (before_second) before_second(x);
    const at::Tensor logits = head(run(second, x));
    if (after_second) after_second(x);
    at::Tensor sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum);
    if (penalty) sum = sum + torch::autograd::grad({sum}, {x}, {}, {}, true)[0].square().sum();
    return {sum, batch.target.numel(), logits};
  }
};
template <class Norm>
using NormNet = torch::nn::ModuleHolder<NormNetImpl<Norm>>;
using SyncNet = NormNet<SyncBatchNorm>;

template <class Norm>
NormNet<Norm> new_net(at::ScalarType dtype = at::kDouble) {
  torch::manual_seed(6);
  NormNet<Norm> net(std::make_shared<NormNetImpl<Norm>>());
  net->to(model_device, dtype);
  return net;
}
inline const AdamW optimizer{.lr = 1e-2, .eps = 1e-3};

}  // namespace test::ranks::sync_nets
