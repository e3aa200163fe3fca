// modules::BNReLU2d: outliers, constant channels, large means and tiny variances, against double.
#include "bn_relu_cases.hpp"

namespace test::bn_relu {

/// Result, gradient of the input, running mean and variance, in the dtype of `x`.
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

/// The largest relative error of each, by channel. A bias of 3 keeps ReLU from deciding by
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

}  // namespace test::bn_relu
