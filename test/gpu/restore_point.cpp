// A step that throws puts a device's buffers and generator back, and waits for nothing.
#include "guarantees.hpp"

namespace gpu {

namespace restore_point_parts {

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct StatisticsImpl : torch::nn::Module {
  torch::nn::Linear in{width, width}, out{width, 1};
  torch::nn::BatchNorm1d norm{width};
  torch::nn::Dropout drop{0.3};
  at::Tensor table = register_buffer("table", torch::ones({2, 3}));
  bool fails = false;
  StatisticsImpl() {
    register_module("in", in), register_module("out", out);
    register_module("norm", norm), register_module("drop", drop);
  }
  template <class Run>
  Loss loss(Run&, const at::Tensor& x) {
    table.add_(1);
    const at::Tensor y = out(drop(norm(in(x))));
    if (fails) throw Failure("after forward");
    return {y.square().sum(), y.numel()};
  }
};
TORCH_MODULE(Statistics);

/// Returns the tensors of a state that has at least these names.
Tensors copies_of(const StateDict& state, const StateDict& names) {
  Tensors values;
  for (const auto& item : names) values.push_back(state.at(item.first).cpu().clone());
  return values;
}

}  // namespace restore_point_parts
using namespace restore_point_parts;

TEST_CASE("a step that throws puts buffers and random generators back") {
  torch::manual_seed(1);
  Trainer trainer{Statistics(), adamw, On{device()}};
  const at::Tensor input = torch::randn({6, width}).to(device());
  auto step = [&](bool fails) {
    trainer.model()->fails = fails;
    const NoHostSync none;
    if (fails) CHECK_THROWS_AS(trainer.step(input), Failure);
    else trainer.step(input);
  };
  for (int i = 0; i < 3; ++i) {
    const StateDict names = trainer.state();
    const Tensors before = copies_of(names, names);
    step(true), step(true);
    CHECK(test::same_bits(copies_of(trainer.state(), names), before));
    step(false);
    CHECK_FALSE(test::same_bits(copies_of(trainer.state(), names), before));
  }
}

}  // namespace gpu
