#pragma once
// Defines a model with every case that parameters/ must handle: nested units, frozen parameters, a
// frozen unit, shared and root parameters, one that the loss does not reach, units that are not
// run, gradients of gradients.
#include "masters.hpp"

namespace test::mixed {

enum class Look { No, First, Second };  // gradients taken inside the loss
/// One batch; two of its fields are no tensors and go with every microbatch.
struct Sample {
  at::Tensor input, target;
  bool skip = false;
  Look look = Look::No;
};

/// A trained and a frozen parameter, and one that is shared with other modules.
struct InnerImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(6, 6));
  at::Tensor still = register_parameter("still", at::randn({6}), /*requires_grad=*/false);
  at::Tensor scale;
  Noise noise{nullptr};
  explicit InnerImpl(at::Tensor s) : scale(register_parameter("scale", std::move(s))) {}
  at::Tensor forward(const at::Tensor& x) {
    auto y = at::tanh(w(x)) * scale + still * x;
    return noise ? noise(y) : y;
  }
};
TORCH_MODULE(Inner);
/// Has a unit inside, and a parameter that is in the graph and not reached from the loss.
struct OuterImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(6, 6));
  at::Tensor lost = register_parameter("lost", at::randn({6}));
  Inner inner{nullptr};
  at::Tensor aside;
  explicit OuterImpl(const at::Tensor& s) { inner = register_module("inner", Inner(s)); }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    aside = x * lost;
    return run(inner, at::tanh(w(x))) + x;
  }
};
TORCH_MODULE(Outer);
struct FrozenImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(6, 6));
  explicit FrozenImpl(bool trains = false) {
    for (auto& p : parameters()) p.requires_grad_(trains);
  }
  at::Tensor forward(const at::Tensor& x) { return at::tanh(w(x)); }
};
TORCH_MODULE(Frozen);

struct NetImpl : torch::nn::Module {
  using units = ikebana::Units<Outer, Inner, Frozen>;
  at::Tensor scale = register_parameter("scale", at::randn({6}));
  torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 6));
  Frozen frozen = register_module("frozen", Frozen());
  Outer outer = register_module("outer", Outer(scale));
  Inner last = register_module("last", Inner(scale));
  std::function<at::Tensor(at::Tensor)> between = [](at::Tensor x) { return x; };
  at::Tensor kept;

  template <class Run>
  ikebana::Loss loss(Run& run, const Sample& batch) {
    auto x = first(batch.input);
    auto y = between(run(outer, run(frozen, x)));
    if (!batch.skip) y = run(last, y);
    auto sum = at::mse_loss(y, batch.target, at::Reduction::Sum);
    if (batch.look != Look::No) {
      bool second = batch.look == Look::Second;
      auto slope =
          torch::autograd::grad({y.pow(2).sum()}, {x}, {}, /*retain_graph=*/true, second)[0];
      sum = sum + (second ? slope.pow(2).sum() : (slope * x).sum());
    }
    return {sum, batch.target.numel()};
  }
  ikebana::Count count(const Sample& batch) { return batch.target.numel(); }
};
TORCH_MODULE(Net);
inline Net net() {
  torch::manual_seed(0);
  return Net();
}
/// Makes a net with batch norm and dropout in two units.
inline Net noisy_net() {
  Net model = net();
  for (Inner unit : {model->outer->inner, model->last})
    unit->noise = unit->register_module("noise", Noise(6));
  return model;
}
/// One unit used twice, or by hand two units of equal values.
struct TwiceImpl : torch::nn::Module {
  using units = ikebana::Units<Frozen>;
  Frozen a = register_module("a", Frozen(true)), b = register_module("b", Frozen(true));
  bool tied = false;
  template <class Run>
  ikebana::Loss loss(Run& run, const Sample& batch) {
    auto y = run(tied ? a : b, run(a, batch.input));
    return {at::mse_loss(y, batch.target, at::Reduction::Sum), batch.target.numel()};
  }
};
TORCH_MODULE(Twice);
inline Twice twice() {
  torch::manual_seed(0);
  Twice model;
  torch::NoGradGuard no_grad;
  model->b->w->weight.copy_(model->a->w->weight);
  model->b->w->bias.copy_(model->a->w->bias);
  return model;
}

inline Sample sample(int seed, bool skip = false, Look look = Look::No) {
  return {random({4, 6}, seed), random({4, 6}, seed + 100), skip, look};
}
inline std::vector<Sample> samples() {
  return {sample(1), sample(2, true), sample(3, false, Look::First), sample(4, false, Look::Second),
          sample(5)};
}

using Away = test::Masters64<>;
using AwayKept = test::Masters64<true>;
using AwayFlat = test::Masters64<false, true>;  // refused

template <class Policies>
struct trainer_with;
template <class... Ps>
struct trainer_with<std::tuple<Ps...>> {
  using type = ikebana::Trainer<Net, Ps...>;
};
template <class Policies>
using trainer_of = typename trainer_with<Policies>::type;

}  // namespace test::mixed
