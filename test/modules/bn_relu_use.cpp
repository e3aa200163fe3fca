// Tests how modules::BNReLU2d is used: frozen, with second derivatives, in a trainer, with Python's
// names.
#include "bn_relu_cases.hpp"

#include <limits>

#include <ikebana.hpp>

namespace test::bn_relu {

TEST_CASE("BNReLU2d: frozen parameters and inputs without a gradient") {
  torch::manual_seed(5);
  for (const bool adds : {false, true}) {
    Layer layer({{4, 8, 5, 5}, channels_last, adds}), other = layer;
    const Tensors all = layer.all();
    other.x = layer.x.detach();
    const auto weight =
        torch::autograd::grad({other.forward()}, {layer.layer->weight}, {layer.gradient})[0];
    CHECK(same_bits(weight, all[1]));
    layer.layer->weight.requires_grad_(false), layer.layer->bias.requires_grad_(false);
    const auto dx = torch::autograd::grad({layer.forward()}, {layer.x}, {layer.gradient})[0];
    CHECK(same_bits(dx, all[0]));
  }
}

TEST_CASE("BNReLU2d: second derivatives are those of the operators") {
  const auto penalty = [](const at::Tensor& x, const at::Tensor& y) {
    const at::Tensor slope = torch::autograd::grad({y.square().sum()}, {x}, {}, true, true)[0];
    return torch::autograd::grad({slope.square().sum()}, {x})[0];
  };
  auto [layer, reference] = clear_case({{4, 8, 5, 5}, channels_last, true});
  nn::BatchNorm2d norm(layer.layer->options);
  norm->to(at::kDouble);
  {
    at::NoGradGuard no_grad;
    norm->weight.copy_(layer.layer->weight), norm->bias.copy_(layer.layer->bias);
  }
  const at::Tensor wide = layer.x.detach().to(at::kDouble).set_requires_grad(true);
  const at::Tensor expected = penalty(wide, at::relu(norm(wide) + layer.residual));
  CHECK(worst_relative({penalty(layer.x, layer.forward())}, {expected}) < 1e-4);
}

TEST_CASE("BNReLU2d: NaN is not hidden, and what does not fit is an error") {
  Layer layer({{4, 8, 5, 5}, channels_last, false});
  {
    at::NoGradGuard no_grad;
    layer.x[1][2][3][4] = std::numeric_limits<double>::quiet_NaN();
  }
  const at::Tensor y = layer.forward();
  CHECK(y.select(1, 2).isnan().all().item<bool>());
  CHECK_FALSE(y.select(1, 3).isnan().any().item<bool>());
  CHECK(y.select(1, 2).isnan().all().item<bool>());
  BNReLU2d small(8);
  CHECK(contains(message_of<ikebana::BadBatch>([&] { small(at::ones({2, 4, 3, 3})); }),
                 "must be (N, 8, H, W)"));
  CHECK(contains(
      message_of<ikebana::BadBatch>([&] { small(at::ones({2, 8, 3, 3}), at::ones({2, 8, 1, 1})); }),
      "nothing is broadcast"));
  CHECK_THROWS_AS(small(at::ones({1, 8, 1, 1})), c10::Error);  // one value in a channel
}

struct BlockImpl : nn::Module {
  nn::Conv2d conv{nn::Conv2dOptions(4, 4, 3).padding(1).bias(false)};
  BNReLU2d norm{4};
  BlockImpl() { register_module("conv", conv), register_module("norm", norm); }
  at::Tensor forward(const at::Tensor& x) { return norm(conv(x), x); }
};
TORCH_MODULE(Block);
struct NetImpl : nn::Module {
  using units = ikebana::Units<Block>;
  Block first, second;
  NetImpl() { register_module("first", first), register_module("second", second); }
  template <class Run>
  ikebana::Loss loss(Run& run, const at::Tensor& x) {
    const at::Tensor y = run(second, run(first, x));
    return {y.square().sum(), y.numel()};
  }
};
TORCH_MODULE(Net);

TEST_CASE("BNReLU2d: in a trainer a recompute changes no bit") {
  const auto trained = [](auto... policies) {
    torch::manual_seed(6);
    ikebana::Trainer trainer{Net(), ikebana::Layout<ikebana::ChannelsLast>{}, policies...};
    for (int i = 0; i < 3; ++i) trainer.step(at::randn({4, 4, 6, 6}));
    return trainer.state();
  };
  using ikebana::Checkpoint, ikebana::Full, ikebana::Selective, ikebana::AdamW;
  auto plain = trained(), full = trained(Checkpoint<Full>{}),
       some = trained(Checkpoint<Selective>{});
  CHECK(same_state(plain, full));
  CHECK(same_state(plain, some));
}

TEST_CASE("BNReLU2d: weights and statistics are those of BatchNorm2d, by name") {
  Layer layer({{4, 8, 5, 5}, contiguous, false});
  layer.forward();
  nn::BatchNorm2d norm(layer.layer->options);
  const auto path = std::filesystem::temp_directory_path() / "ikebana_bn_relu.safetensors";
  ikebana::StateDict weights;
  for (const auto& p : layer.layer->named_parameters()) weights[p.key()] = p.value().detach();
  for (const auto& b : layer.layer->named_buffers()) weights[b.key()] = b.value();
  ikebana::save_tensors(path, weights);
  ikebana::load_weights(norm, path);
  std::filesystem::remove(path);
  CHECK(same_bits(norm->running_var, layer.layer->running_var));
  CHECK(contains(c10::str(layer.layer), "BNReLU2d(8)"));
}

}  // namespace test::bn_relu
