// ClipGradValue clamps the true gradients, alone and with norms before and behind it, as a loop in
// double precision does; what it makes finite does not escape the checks before it.
#include "guarantees/guarantees.hpp"

namespace guarantees::clip_value {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A table of rows and a head, in double precision. Counts are known late; `poison` is added to the
/// gradient of each output, so that a gradient can be infinite or NaN while the loss is finite.
struct NetImpl : torch::nn::Module {
  torch::nn::Embedding embed;
  torch::nn::Linear head{4, 3};
  at::Tensor poison = at::zeros({3}, at::kDouble);
  explicit NetImpl(bool sparse) : embed(torch::nn::EmbeddingOptions(6, 4).sparse(sparse)) {
    register_module("embed", embed), register_module("head", head);
    to(at::kDouble);
  }
  at::Tensor outputs(const Rows& batch) {
    at::Tensor y = head(embed(batch.input));
    if (y.requires_grad()) y.register_hook([this](const at::Tensor& g) { return g + poison; });
    return y;
  }
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    return {(outputs(batch) - batch.target).pow(2).sum(), batch.target.numel()};
  }
};
TORCH_MODULE(Net);
Net net(bool sparse = false) {
  return seeded([&] { return Net(sparse); });
}
/// Returns rows of which some are equal.
std::vector<Rows> data(int n) {
  torch::manual_seed(4);
  std::vector<Rows> all;
  for (int i = 0; i < n; ++i)
    all.push_back({torch::randint(6, {5}, at::kLong), torch::randn({5, 3}, at::kDouble) * 3});
  return all;
}

/// Returns the gradients of the mean over all batches, by autograd alone.
Tensors gradients_of(Net& model, const std::vector<Rows>& batches) {
  at::Tensor sum = at::zeros({}, at::kDouble);
  double count = 0;
  for (const Rows& batch : batches) {
    sum = sum + (model->outputs(batch) - batch.target).pow(2).sum();
    count += static_cast<double>(batch.target.numel());
  }
  return torch::autograd::grad({sum / count}, model->parameters());
}
void clamp(Tensors& gradients, double value) {
  for (auto& g : gradients) g = g.clamp(-value, value);
}
double norm_of(const Tensors& gradients) {
  double sum = 0;
  for (const auto& g : gradients) sum += g.pow(2).sum().item<double>();
  return std::sqrt(sum);
}
void clip_norm(Tensors& gradients, double max_norm) {
  const double divisor = std::max(1.0, (norm_of(gradients) + 1e-6) / max_norm);
  for (auto& g : gradients) g = g / divisor;
}

/// Compares three steps of SGD, each of two microbatches, with the loop that `change` completes.
template <class Change, class... Policies>
void equals_loop(const Change& change, const Policies&... policies) {
  auto model = net(), by_hand = net();
  Trainer trainer{model, SGD{.lr = 0.5}, policies...};
  for (int s = 0; s < 3; ++s) {
    const auto batches = data(2);
    const Report report = trainer.step(batches);
    Tensors gradients = gradients_of(by_hand, batches);
    const double norm = change(gradients);
    if (report.grad_norm()) CHECK(*report.grad_norm() == doctest::Approx(norm).epsilon(1e-12));
    torch::NoGradGuard no_grad;
    std::size_t i = 0;
    for (auto& p : by_hand->parameters()) p.sub_(0.5 * gradients[i++]);
  }
  CHECK(test::worst_relative(parameters_of(model), parameters_of(by_hand)) < 1e-12);
}
TEST_CASE("clip value: alone and with norms in either order, it equals a loop in double") {
  const ClipGradValue value{.clip_value = 0.05};
  const ClipGradNorm norm{.max_norm = 0.2};
  equals_loop([](Tensors& g) { return clamp(g, 0.05), 0.0; }, value);
  auto value_first = [](Tensors& g) {
    clamp(g, 0.05);
    const double norm_then = norm_of(g);
    return clip_norm(g, 0.2), norm_then;
  };
  auto norm_first = [](Tensors& g) {
    const double norm_then = norm_of(g);
    return clip_norm(g, 0.2), clamp(g, 0.05), norm_then;
  };
  equals_loop(value_first, value, norm);
  equals_loop(norm_first, norm, value);
  auto value_then_norm = [](Tensors& g) { return clamp(g, 0.05), norm_of(g); };
  auto norm_then_value = [](Tensors& g) {
    const double norm_then = norm_of(g);
    return clamp(g, 0.05), norm_then;
  };
  equals_loop(value_then_norm, value, GradNorm{});
  equals_loop(norm_then_value, GradNorm{}, value);
  auto all = [](Tensors& g) {  // the last norm is the one that is reported
    clip_norm(g, 0.2), clamp(g, 0.05);
    return norm_of(g);
  };
  equals_loop(all, norm, value, GradNorm{});
}

TEST_CASE("clip value: sparse gradients are clamped after equal rows were summed") {
  const ClipGradValue value{.clip_value = 0.02};
  auto same = [](const auto&... policies) {
    SparseAdam sparse{.lr = 0.02, .eps = 1e-12};
    sparse.otherwise = {.lr = 0.02, .eps = 1e-12, .weight_decay = 0};
    auto mine = net(true), dense = net();
    Trainer first{mine, sparse, policies...};
    Trainer second{dense, Adam{.lr = 0.02, .eps = 1e-12}, policies...};
    std::vector<Rows> batches = data(2);
    batches[0].input = at::arange(6).narrow(0, 0, 5), batches[1].input.fill_(5);  // all rows
    for (int s = 0; s < 3; ++s) first.step(batches), second.step(batches);
    CHECK(test::worst_relative(parameters_of(mine), parameters_of(dense)) < 1e-9);
  };
  same(value), same(value, ClipGradNorm{.max_norm = 0.05});
  same(ClipGradNorm{.max_norm = 0.3}, value);
}

TEST_CASE("clip value: where no divisor is left, it has the bits of clip_grad_value_") {
  for (auto type : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
    torch::manual_seed(6);
    const OneRank alone;
    StepGradients step;
    step.values = {at::randn({3, 4}).to(type), at::randn({}).to(type), at::empty({0}).to(type)};
    step.indices = {0, 1, 2};
    step.values[0][0][0] = NAN, step.values[0][0][1] = -INFINITY, step.values[0][0][2] = -0.0;
    Tensors expected;
    for (const auto& g : step.values)
      expected.push_back(at::clamp_max(at::clamp_min(g, -0.3), 0.3));
    Mechanism<ClipGradValue> mechanism{ClipGradValue{.clip_value = 0.3}};
    mechanism.clip(step, alone);
    CHECK(test::same_bits(step.values, expected));
    CHECK(step.values[0][0][0].isnan().item<bool>());
    CHECK((step.values[0][0][1] == at::full({}, -0.3, type)).item<bool>());
  }
}

/// Returns what a step whose gradient has this element throws; the parameters are unchanged then.
template <class... Policies>
std::string error_with(double element, const Policies&... policies) {
  auto model = net();
  Trainer trainer{model, SGD{.lr = 0.5}, policies...};
  model->poison[1] = element;
  const auto before = parameters_of(model);
  const auto text = test::message_of<NonFinite>([&] { trainer.step(data(1)[0]); });
  CHECK(test::same_bits(before, parameters_of(model)) == !text.empty());
  return text;
}

TEST_CASE("clip value: NaN and infinity are found by the checks that are before it") {
  const ClipGradValue value{.clip_value = 0.05};
  const std::string names = ", nor is the gradient of `";
  for (double element : {double(NAN), infinity}) {
    CAPTURE(element);
    CHECK(test::contains(error_with(element, GradNorm{}, value), "GradNorm: the norm of the"));
    CHECK(test::contains(error_with(element, GradNorm{}, value), names));
    CHECK(test::contains(error_with(element, GradNorm{}, value, ClipGradNorm{}), "GradNorm: "));
    CHECK(test::contains(error_with(element, ClipGradNorm{}, value), "ClipGradNorm: the norm"));
  }
  CHECK(test::contains(error_with(NAN, value, GradNorm{}), names));  // a NaN stays one
  CHECK(error_with(infinity, value).empty());                        // as PyTorch's function
}

TEST_CASE("clip value: under FP16 a gradient that overflowed skips the step, although clamped") {
  auto skips = [](const auto&... policies) {
    auto model = seeded([] { return torch::nn::Sequential(torch::nn::Linear(4, 3)); });
    Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1},
                    Precision<FP16>{.init_scale = 1 << 24, .growth_interval = 3}, policies...};
    std::vector<bool> skipped;
    for (const auto& batch : class_batches(30, 7, 4, 3)) {
      const auto before = parameters_of(model);
      skipped.push_back(trainer.step(batch).skipped());
      CHECK(test::same_bits(before, parameters_of(model)) == skipped.back());
    }
    return skipped;
  };
  const ClipGradValue wide{.clip_value = 1e6};
  const auto expected = skips();
  CHECK(std::count(expected.begin(), expected.end(), true) > 2);
  CHECK(skips(wide) == expected);
  CHECK(skips(wide, GradNorm{}) == expected);
  CHECK(skips(GradNorm{}, wide) == expected);
}

TEST_CASE("clip value: a value that is missing or not positive is an error, and so is complex") {
  auto make = [](double value) {
    return Trainer{net(), SGD{.lr = 0.5}, ClipGradValue{.clip_value = value}};
  };
  CHECK(test::contains(test::message_of<BadValue>([&] { make(0); }), "clip_value is not given"));
  CHECK(test::contains(test::message_of<BadValue>([&] { make(-1); }), "clip_value is -1"));
  CHECK_THROWS_AS(make(NAN), BadValue);
  auto trainer = make(1);
  trainer.get<ClipGradValue>().clip_value = -2;
  const Rows batch = data(1)[0];
  const auto state = trainer.state();
  CHECK_THROWS_AS(trainer.step(batch), BadValue);
  CHECK(same_state(trainer.state(), state));
  CHECK(test::contains(trainer.describe(), "ClipGradValue  {clip_value=-2}"));
  StepGradients complex;
  complex.values = {at::randn({2}, at::kComplexFloat)}, complex.indices = {0};
  Mechanism<ClipGradValue> mechanism{ClipGradValue{.clip_value = 1}};
  const OneRank alone;
  CHECK(test::contains(test::message_of<BadModel>([&] { mechanism.clip(complex, alone); }),
                       "complex numbers have no order"));
}

}  // namespace guarantees::clip_value
