// The divisor of clipping has the same bits as the operators of clip_grad_norm_ give, on every code
// path.
#include "test.hpp"

#include <limits>

#include "guarantees/recipes/hand.hpp"

namespace guarantees::clip {

constexpr float infinity = std::numeric_limits<float>::infinity();

void check(const Tensors& gradients, double max_norm) {
  const OneRank alone;
  Mechanism<ClipGradNorm> mechanism{ClipGradNorm{.max_norm = max_norm}};
  StepGradients step;
  step.values = gradients;
  mechanism.clip(step, alone);
  auto [divisor, norm] = hand::clipping(gradients, at::ones({}), max_norm);
  CAPTURE(max_norm);
  CAPTURE(norm);
  CHECK(test::same_bits(step.norm, norm));
  CHECK(test::same_bits(step.divisor, divisor));
}

TEST_CASE("clipping divides by the same bits as the operators, for any number of gradients") {
  torch::manual_seed(5);
  for (int count : {1, 2, 63, 64, 65, 200})
    for (double scale : {1e-30, 1e-6, 0.1, 1.0, 1e6, 1e18, 1e30}) {
      Tensors gradients;
      for (int i = 0; i < count; ++i) gradients.push_back(at::randn({1 + i % 7, 5}) * scale);
      for (double max_norm : {1e-3, 0.1, 1.0, 7.3, 1e12}) check(gradients, max_norm);
    }
}

TEST_CASE("clipping divides by the same bits as the operators, for extreme values") {
  for (float odd : {0.0f, 1e-45f, 3e38f, infinity, -infinity, NAN})
    for (double max_norm : {1e-3, 1.0, 1e300})
      check({at::full({3}, odd), at::ones({2, 2}), at::empty({0})}, max_norm);
}

TEST_CASE("clipping divides by the same bits as the operators, for every type of gradient") {
  torch::manual_seed(6);
  for (auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
    for (double max_norm : {0.1, 1e4})
      check({at::randn({3, 4}).to(type), at::randn({}).to(type), at::randn({9}).to(type)},
            max_norm);
}

/// One parameter of each dtype, and gradients that are to be divided by 1 / 3.
struct MixedImpl : torch::nn::Module {
  at::Tensor wide, narrow;
  MixedImpl() {
    torch::manual_seed(7);
    wide = register_parameter("wide", torch::randn({9}, at::kDouble));
    narrow = register_parameter("narrow", torch::randn({9}));
  }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    at::Tensor y = wide * batch.input + narrow.to(at::kDouble);
    return {y.pow(2).sum(), 3};
  }
};
TORCH_MODULE(Mixed);

/// Returns the largest errors of both parameters after two microbatches, clipped, against doubles.
std::pair<double, double> errors(bool trains_narrow) {
  const double max_norm = 0.1, lr = 10;
  Rows batch{torch::randn({9}, at::kDouble), {}};
  Mixed model;
  at::Tensor w = model->wide.detach().clone(), n = model->narrow.detach().to(at::kDouble);
  at::Tensor y = 2 * 2 * (w * batch.input + n) / 6, gw = y * batch.input, gn = y;
  if (!trains_narrow) model->narrow.requires_grad_(false), gn.zero_();
  at::Tensor norm = (gw.pow(2).sum() + gn.pow(2).sum()).sqrt() + 1e-6;
  w -= lr * max_norm * gw / norm, n -= lr * max_norm * gn / norm;
  Trainer trainer{model, SGD{.lr = lr}, ClipGradNorm{.max_norm = max_norm}};
  Report report = trainer.step(std::vector{batch, batch});
  CHECK(*report.grad_norm() + 1e-6 == doctest::Approx(norm.item<double>()).epsilon(1e-7));
  return {largest_difference(model->wide, w), largest_difference(model->narrow, n)};
}

TEST_CASE("clipping and late counts divide double gradients in double precision") {
  CHECK(errors(false).first < 1e-14);
  auto [wide, narrow] = errors(true);  // its norm has the error of a Float gradient
  CHECK(wide < 1e-7);
  CHECK(narrow < 1e-6);
}

}  // namespace guarantees::clip
