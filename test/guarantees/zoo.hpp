#pragma once
// Defines models whose units use every feature that a unit may use.
#include "guarantees.hpp"

namespace guarantees {

constexpr std::int64_t width = 12, classes = 5;

/// Batch norm and dropout: running statistics and random numbers.
struct BlockImpl : torch::nn::Module {
  torch::nn::Linear in{width, 2 * width}, out{2 * width, width};
  torch::nn::BatchNorm1d norm{2 * width};
  torch::nn::Dropout drop{0.3};
  BlockImpl() {
    register_module("in", in), register_module("out", out);
    register_module("norm", norm), register_module("drop", drop);
  }
  at::Tensor forward(at::Tensor x) { return x + drop(out(at::gelu(norm(in(x))))); }
};
TORCH_MODULE(Block);

/// A unit that contains units and computes something around them.
struct NestImpl : torch::nn::Module {
  Block first, second;
  torch::nn::Linear between{width, width};
  torch::nn::Dropout drop{0.2};
  NestImpl() {
    register_module("first", first), register_module("second", second);
    register_module("between", between), register_module("drop", drop);
  }
  template <class Run>
  at::Tensor forward(Run& run, at::Tensor x) {
    return at::tanh(run(second, drop(at::tanh(between(run(first, at::sin(x)))))));
  }
};
TORCH_MODULE(Nest);

struct Extras {
  at::Tensor scale;
  std::optional<at::Tensor> mask;
  std::vector<at::Tensor> shifts;
  int power;
};
/// Arguments and results of many kinds, some without gradient, some not tensors.
struct ManyImpl : torch::nn::Module {
  torch::nn::Linear linear{width, width};
  ManyImpl() { register_module("linear", linear); }
  std::tuple<at::Tensor, std::vector<at::Tensor>, int> forward(const std::tuple<at::Tensor, int>& x,
                                                               const Extras& extras) {
    auto y = at::sigmoid(linear(std::get<0>(x))) * extras.scale;
    if (extras.mask) y = y * *extras.mask;
    for (const auto& shift : extras.shifts) y = y + shift * y;
    return {y.pow(extras.power), {at::exp(-y), y.sum(0)}, extras.power + std::get<1>(x)};
  }
};
TORCH_MODULE(Many);

/// Integers in: no input needs a gradient.
struct LookupImpl : torch::nn::Module {
  torch::nn::Embedding table{7, width};
  LookupImpl() { register_module("table", table); }
  at::Tensor forward(at::Tensor x) {
    return table(x.mul(3).to(at::kLong).remainder(7)).tanh().sum(1);
  }
};
TORCH_MODULE(Lookup);

/// Reads a buffer, then updates it: recompute must see the value that forward saw.
struct CentreImpl : torch::nn::Module {
  torch::nn::Linear linear{width, width};
  at::Tensor centre = register_buffer("centre", torch::zeros({width}));
  CentreImpl() { register_module("linear", linear); }
  at::Tensor forward(at::Tensor x) {
    auto y = at::tanh(linear(x - centre.clone()));
    torch::NoGradGuard no_grad;
    centre.mul_(0.5).add_(x.detach().to(at::kFloat).mean(0), 0.5);
    return y;
  }
};
TORCH_MODULE(Centre);

/// A gradient inside the unit: forces from an energy.
struct ForceImpl : torch::nn::Module {
  torch::nn::Linear linear{width, width};
  ForceImpl() { register_module("linear", linear); }
  at::Tensor forward(at::Tensor x) {
    auto place = x.detach().requires_grad_();
    auto energy = at::tanh(linear(at::sin(place))).sum();
    auto force = torch::autograd::grad({energy}, {place}, {}, true, /*create_graph=*/true)[0];
    return x + at::exp(force);
  }
};
TORCH_MODULE(Force);

enum class Kind { Chain, Nested, Twice, Values, Integers, Buffer, Inside, Penalty, count };
inline std::string name_of(Kind kind) {
  static const char* const names[] = {"chain",    "nested", "twice",  "values",
                                      "integers", "buffer", "inside", "penalty"};
  return names[static_cast<int>(kind)];
}

struct ZooImpl : torch::nn::Module {
  using units = Units<Block, Nest, Many, Lookup, Centre, Force>;
  Kind kind;
  Block a, b;
  Nest nest;
  Many many;
  Lookup lookup;
  Centre centre;
  Force force;
  torch::nn::Linear head{width, classes};
  explicit ZooImpl(Kind k) : kind(k) {
    register_module("a", a), register_module("b", b), register_module("nest", nest);
    register_module("many", many), register_module("lookup", lookup);
    register_module("centre", centre), register_module("force", force),
        register_module("head", head);
  }

  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = batch.input, extra;
    if (kind == Kind::Penalty) x = x.detach().clone().requires_grad_();
    at::Tensor y = body(run, x);
    if (kind == Kind::Penalty) {
      auto slope = torch::autograd::grad({y.sum()}, {x}, {}, true, /*create_graph=*/true)[0];
      extra = (slope.norm(2, 1) - 1).pow(2).sum();
    }
    auto sum = at::cross_entropy_loss(head(y), batch.target, {}, at::Reduction::Sum);
    return {extra.defined() ? sum + extra : sum, batch.target.numel()};
  }

 private:
  template <class Run>
  at::Tensor body(Run& run, at::Tensor x) {
    switch (kind) {
      case Kind::Nested:
        return run(nest, run(nest, x));
      case Kind::Twice:
        return run(b, run(a, run(b, run(a, x))));
      case Kind::Values:
        return values(run, run(a, x));
      case Kind::Integers:
        return run(b, run(lookup, x));
      case Kind::Buffer:
        return run(centre, run(centre, x));
      case Kind::Inside:
        return run(force, run(a, x));
      default:
        return run(b, run(a, x));
    }
  }
  template <class Run>
  at::Tensor values(Run& run, at::Tensor x) {
    Extras extras{at::cos(x), (x > 0).to(x.scalar_type()), {x.detach(), x * 0.5}, 2};
    auto [y, parts, power] = run(many, std::tuple<at::Tensor, int>{x, 1}, extras);
    return y * power + parts.at(0) + parts.at(1);
  }
};
TORCH_MODULE(Zoo);

/// A Zoo with the type of `run` erased.
struct ErasedZooImpl : ZooImpl {
  using ZooImpl::ZooImpl;
  Loss loss(Runner& run, const Rows& batch) { return ZooImpl::loss(run, batch); }
};
TORCH_MODULE(ErasedZoo);

}  // namespace guarantees
