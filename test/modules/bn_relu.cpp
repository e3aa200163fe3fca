// Tests modules::BNReLU2d against LibTorch's operators in double precision.
#include <ATen/record_function.h>
#include <ikebana.hpp>
#include <ikebana/modules/bn_relu.hpp>
#include <limits>

#include "attention_cases.hpp"

namespace test::bn_relu {

using ikebana::modules::BNReLU2d;
namespace nn = torch::nn;
using Options = nn::BatchNorm2dOptions;

constexpr auto contiguous = at::MemoryFormat::Contiguous;
constexpr auto channels_last = at::MemoryFormat::ChannelsLast;

struct Case {
  std::vector<std::int64_t> sizes;
  at::MemoryFormat format;
  bool adds;
};
inline std::vector<Case> cases() {
  const std::vector<std::vector<std::int64_t>> all = {
      {3, 1, 2, 1}, {3, 8, 5, 7}, {17, 13, 3, 3}, {40, 16, 8, 8}, {2, 70, 20, 30}, {1, 3, 9, 2}};
  std::vector<Case> list;
  for (const auto& sizes : all)
    for (const auto format : {contiguous, channels_last})
      for (const bool adds : {false, true}) list.push_back({sizes, format, adds});
  return list;
}
/// Returns whether f called LibTorch's own batch norm.
template <class F>
bool calls_batch_norm(const F& f) {
  static thread_local bool found = false;
  found = false;
  const auto note = [](const at::RecordFunction& r) -> std::unique_ptr<at::ObserverContext> {
    found |= std::string(r.name()) == "aten::native_batch_norm";
    return nullptr;
  };
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(note).scopes({at::RecordScope::FUNCTION}));
  f();
  at::removeCallback(handle);
  return found;
}

struct Layer {
  BNReLU2d layer;
  at::Tensor x, residual, gradient;

  Layer(const Case& c, double mean = 0.5) : layer(Options(c.sizes[1]).eps(1e-4).momentum(0.2)) {
    x = (at::randn(c.sizes) * 2 + mean).contiguous(c.format).set_requires_grad(true);
    if (c.adds) residual = at::randn(c.sizes).contiguous(c.format).set_requires_grad(true);
    gradient = at::randn(c.sizes);
    at::NoGradGuard no_grad;
    layer->weight.uniform_(0.5, 2), layer->bias.uniform_(-1, 1);
  }
  at::Tensor forward() { return layer(x, residual); }
  /// Returns the result and all gradients.
  Tensors all() {
    Tensors inputs{x, layer->weight, layer->bias};
    if (residual.defined()) inputs.push_back(residual);
    const at::Tensor y = forward();
    auto all = torch::autograd::grad({y}, inputs, {gradient});
    all.push_back(y.detach());
    return all;
  }
};
struct Reference {
  Tensors all;
  at::Tensor running_mean, running_var;
  double nearest;  ///< the distance of ReLU's argument from 0, near which rounding may change its
                   ///< gradient
};
inline Reference in_double(const Layer& layer) {
  const auto wide = [](const at::Tensor& t) {
    return t.detach().to(at::kDouble).clone().set_requires_grad(true);
  };
  nn::BatchNorm2d norm(layer.layer->options);
  norm->to(at::kDouble);
  {
    at::NoGradGuard no_grad;
    norm->weight.copy_(layer.layer->weight), norm->bias.copy_(layer.layer->bias);
  }
  Tensors inputs{wide(layer.x), norm->weight, norm->bias};
  at::Tensor y = norm(inputs[0]);
  if (layer.residual.defined()) {
    inputs.push_back(wide(layer.residual));
    y = y + inputs.back();
  }
  Reference result;
  result.nearest = y.abs().min().item<double>();
  y = at::relu(y);
  result.all = torch::autograd::grad({y}, inputs, {layer.gradient.to(at::kDouble)});
  result.all.push_back(y.detach());
  result.running_mean = norm->running_mean, result.running_var = norm->running_var;
  return result;
}
/// Makes a layer that rounding cannot bring to another side of the ReLU.
inline std::pair<Layer, Reference> clear_case(const Case& c) {
  for (std::uint64_t seed = 0;; ++seed) {
    torch::manual_seed(seed);
    Layer layer(c);
    Reference reference = in_double(layer);
    if (reference.nearest > 4e-6) return {layer, reference};
  }
}

TEST_CASE("BNReLU2d: results, gradients and statistics are those of double precision") {
  for (const Case& c : cases()) {
    CAPTURE(c.sizes);
    CAPTURE(c.adds);
    auto [layer, reference] = clear_case(c);
    Tensors all;
    CHECK_FALSE(calls_batch_norm([&, &layer = layer] { all = layer.all(); }));
    REQUIRE(all.size() == reference.all.size());
    for (std::size_t i = 0; i < all.size(); ++i)
      CHECK(worst_relative({all[i]}, {reference.all[i]}) < 2e-5);
    CHECK(all.back().is_contiguous(c.format));
    CHECK(worst_relative({layer.layer->running_mean}, {reference.running_mean}) < 3e-6);
    CHECK(worst_relative({layer.layer->running_var}, {reference.running_var}) < 1e-6);
    CHECK(layer.layer->num_batches_tracked.item<std::int64_t>() == 1);
  }
}

TEST_CASE("BNReLU2d: a mean of a thousand standard deviations costs no digits of the variance") {
  for (const auto format : {contiguous, channels_last}) {
    torch::manual_seed(0);
    Layer layer({{16, 16, 6, 6}, format, false}, 2000);
    const Reference reference = in_double(layer);
    const Tensors all = layer.all();
    CHECK(worst_relative({layer.layer->running_var}, {reference.running_var}) < 1e-6);
    CHECK(worst_relative({all.back()}, {reference.all.back()}) < 1e-3);
  }
}

TEST_CASE("BNReLU2d: the number of threads changes no bit") {
  const int before = at::get_num_threads();
  for (const Case& c : cases()) {
    std::vector<Tensors> results;
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      torch::manual_seed(1);
      results.push_back(Layer(c).all());
    }
    CHECK(same_bits(results[0], results[1]));
  }
  at::set_num_threads(before);
}

TEST_CASE("BNReLU2d: whatever its loops do not compute, LibTorch's operators do, to the bit") {
  const Case c{{4, 8, 5, 5}, channels_last, true};
  const auto same_as_operators = [&](const char* what, auto&& change) {
    CAPTURE(what);
    torch::manual_seed(2);
    Layer layer(c);
    change(layer);
    nn::BatchNorm2d norm(layer.layer->options);
    norm->to(layer.layer->weight.scalar_type());
    norm->train(layer.layer->is_training());
    {
      at::NoGradGuard no_grad;
      norm->weight.copy_(layer.layer->weight), norm->bias.copy_(layer.layer->bias);
    }
    const at::Tensor expected = at::relu(norm(layer.x) + layer.residual);
    CHECK(same_bits(layer.forward(), expected));
    CHECK(same_bits(layer.layer->running_var, norm->running_var));
  };
  same_as_operators("evaluation", [](Layer& l) { l.layer->eval(); });
  same_as_operators("FP64", [](Layer& l) {
    l.layer->to(at::kDouble);
    l.x = l.x.to(at::kDouble), l.residual = l.residual.to(at::kDouble);
  });
  same_as_operators("BF16 images", [](Layer& l) {
    l.x = l.x.to(at::kBFloat16), l.residual = l.residual.to(at::kBFloat16);
  });
  same_as_operators("another format", [](Layer& l) { l.residual = l.residual.contiguous(); });
  same_as_operators("no dense memory", [](Layer& l) {
    l.x = l.x.narrow(3, 0, 4);
    l.residual = l.residual.narrow(3, 0, 4);
  });
}

TEST_CASE("BNReLU2d: options of batch norm") {
  torch::manual_seed(4);
  const at::Tensor x = at::randn({4, 8, 5, 5}), y = at::randn({4, 8, 5, 5});
  BNReLU2d cumulative(Options(8).momentum(std::nullopt));
  nn::BatchNorm2d norm(Options(8).momentum(std::nullopt));
  for (const auto& batch : {x, y}) cumulative(batch), norm(batch);
  CHECK(worst_relative({cumulative->running_var}, {norm->running_var}) < 1e-6);
  BNReLU2d untracked(Options(8).track_running_stats(false));
  CHECK(worst_relative({untracked(x)}, {at::relu(nn::BatchNorm2d(Options(8))(x))}) < 1e-5);
  CHECK_FALSE(untracked->running_mean.defined());
  CHECK(calls_batch_norm([&] { BNReLU2d(Options(8).affine(false))(x); }));
}

/// Returns the result, the gradient of the input, and the running mean and variance, in the dtype
/// of `x`.
template <class Norm>
Tensors results(Norm& norm, const at::Tensor& x, const at::Tensor& gradient, bool relu) {
  auto leaf = x.clone().set_requires_grad(true);
  at::Tensor y = norm->forward(leaf);
  if (relu) y = y.relu();
  const auto grads = torch::autograd::grad({y}, {leaf, norm->weight, norm->bias}, {gradient});
  Tensors all{y.detach(), norm->running_mean, norm->running_var};
  all.insert(all.end(), grads.begin(), grads.end());
  return all;
}

/// Compares the largest relative error of each, by channel. A bias of 3 keeps ReLU from deciding by
/// rounding.
void compare(const char* what, at::Tensor x, double bound, double eps = 1e-5) {
  for (const auto format : {contiguous, channels_last}) {
    x = x.contiguous(format);
    const at::Tensor gradient = at::randn(x.sizes());
    BNReLU2d ours(Options(x.size(1)).eps(eps));
    nn::BatchNorm2d exact(Options(x.size(1)).eps(eps));
    exact->to(at::kDouble);
    ours->bias.data().fill_(3), exact->bias.data().fill_(3);
    const auto got = results(ours, x, gradient, false);
    const auto expected = results(exact, x.to(at::kDouble), gradient.to(at::kDouble), true);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::string where = std::string(what) + ", result " + std::to_string(i);
      CAPTURE(where);
      const at::Tensor difference = (got[i].to(at::kDouble) - expected[i]).abs();
      const double size = std::max(expected[i].abs().max().item<double>(), 1e-30);
      CHECK(difference.max().item<double>() <= bound * size);
    }
  }
}

at::Tensor with_outliers(double outlier, std::int64_t first, std::int64_t step) {
  at::Tensor x = at::randn({9, 11, 13, 7});
  for (std::int64_t i = first; i < x.numel(); i += step) x.view({-1})[i] = outlier;
  return x;
}

TEST_CASE("BNReLU2d: an outlier as the first value, or anywhere, costs no digits") {
  torch::manual_seed(5);
  for (const double outlier : {100.0, -100.0, 1e4, 1e7}) {
    at::Tensor first = at::randn({9, 11, 13, 7});
    first.slice(0, 0, 1).slice(2, 0, 1).slice(3, 0, 1).fill_(outlier);
    compare("the first value", first, 4e-6);
    compare("the first image", at::cat({at::full({1, 11, 13, 7}, outlier), first}), 4e-6);
    compare("every 97th", with_outliers(outlier, 3, 97), 4e-6);
    compare("most", with_outliers(outlier, 0, 2), 1e-5);
  }
}

TEST_CASE("BNReLU2d: constant channels, large means and tiny variances") {
  torch::manual_seed(6);
  const std::vector<std::int64_t> sizes{9, 11, 13, 7};
  compare("constant 0", at::zeros(sizes), 4e-6);
  compare(
      "constant 1e4, one outlier",
      [&] {
        at::Tensor x = at::full(sizes, 1e4);
        x.slice(0, 0, 1).slice(2, 0, 1).slice(3, 0, 1).fill_(0);
        return x;
      }(),
      4e-6);
  compare("mean 1000 deviations", at::randn(sizes) + 1000, 4e-6);
  compare("mean 1e5 deviations", at::randn(sizes) + 1e5, 4e-6);
  compare("variance 1e-12", at::randn(sizes) * 1e-6, 4e-6);
  compare("variance 1e-12, no eps", at::randn(sizes) * 1e-6, 1e-5, 0);
  compare("variance 1e-24, no eps", at::randn(sizes) * 1e-12, 1e-5, 0);
  compare("two values far apart", (at::rand(sizes) < 0.5).to(at::kFloat) * 1e6, 4e-6);
}

TEST_CASE("BNReLU2d: squares beyond FP32 are summed in double") {
  torch::manual_seed(7);
  at::Tensor x = at::randn({9, 11, 13, 7}) * 1e19;  // a variance that FP32 just holds
  x[0][0][0][0] = 3e19f;
  BNReLU2d ours(Options(11));
  nn::BatchNorm2d exact(Options(11));
  exact->to(at::kDouble);
  const at::Tensor expected = exact(x.to(at::kDouble)).relu();
  CHECK((ours(x).to(at::kDouble) - expected).abs().max().item<double>() < 1e-5);
}

TEST_CASE("BNReLU2d: a value that is not finite spoils its own channel only") {
  torch::manual_seed(8);
  for (const double bad : std::vector<double>{NAN, INFINITY, -INFINITY}) {
    at::Tensor x = at::randn({4, 3, 5, 5});
    x[0][1][0][0] = bad;
    BNReLU2d norm(Options(3));
    const at::Tensor y = norm(x);
    CHECK(y.select(1, 0).isfinite().all().item<bool>());
    CHECK(y.select(1, 2).isfinite().all().item<bool>());
    CHECK(y.select(1, 1).isnan().all().item<bool>());
  }
}

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
