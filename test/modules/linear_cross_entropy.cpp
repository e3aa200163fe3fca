// modules::linear_cross_entropy against cross_entropy of linear, with first and second derivatives.
#include "attention_cases.hpp"

#include <ikebana/modules/linear_cross_entropy.hpp>

namespace test::linear_cross_entropies {

using ikebana::modules::linear_cross_entropy;
using ikebana::modules::LinearCrossEntropyOptions;

constexpr std::int64_t classes = 37, width = 12;

struct Problem {
  const char* what;
  std::vector<std::int64_t> sizes;  // the sizes of the target
  LinearCrossEntropyOptions options{};
  bool bias = false;
  double ignored = 0;
};

// clang-format off
std::vector<Problem> problems() {
  return {
      {"rows", {20}},
      {"batch and length", {3, 7}},
      {"one row without dimensions", {}},
      {"no rows", {0}},
      {"chunks of one row", {5}, {.chunk_rows = 1}},
      {"a smaller last chunk", {3, 7}, {.chunk_rows = 4}},
      {"bias", {3, 7}, {.chunk_rows = 4}, true},
      {"some are ignored", {3, 7}, {.chunk_rows = 4}, true, 0.4},
      {"another is ignored", {3, 7}, {.ignore_index = 5, .chunk_rows = 4}, false, 0.4},
      {"all are ignored", {6}, {}, true, 1},
      {"smoothing", {3, 7}, {.label_smoothing = 0.1, .chunk_rows = 4}},
      {"smoothing, bias, ignored", {20}, {.label_smoothing = 0.3, .chunk_rows = 6}, true, 0.4},
      {"nothing but smoothing", {20}, {.label_smoothing = 1}},
  };
}
// clang-format on

/// The inputs of one problem; `run` computes the gradients of hidden, weight and bias, and the sum.
struct Sample {
  Problem problem;
  at::Tensor hidden, weight, bias, target;

  explicit Sample(const Problem& p, double sharpness = 1) : problem(p) {
    torch::manual_seed(2);
    auto sizes = p.sizes;
    target = at::randint(classes, sizes, at::kLong);
    target.masked_fill_(at::rand(sizes) < p.ignored, p.options.ignore_index);
    sizes.push_back(width);
    hidden = at::randn(sizes, at::kDouble) * sharpness;
    weight = at::randn({classes, width}, at::kDouble);
    bias = at::randn({classes}, at::kDouble);
  }
  Tensors leaves(at::ScalarType type) const {
    Tensors all = {hidden, weight};
    if (problem.bias) all.push_back(bias);
    for (auto& x : all) x = x.to(type).clone().set_requires_grad(true);
    return all;
  }
  at::Tensor plain(const Tensors& x) const {
    const auto logits = at::linear(x[0], x[1], x.size() > 2 ? std::optional(x[2]) : std::nullopt);
    const auto wide = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const auto& o = problem.options;
    return at::cross_entropy_loss(logits.to(wide).view({-1, classes}), target.flatten(), {},
                                  at::Reduction::Sum, o.ignore_index, o.label_smoothing);
  }
  at::Tensor ours(const Tensors& x) const {
    auto o = problem.options;
    if (x.size() > 2) o.bias = x[2];
    return linear_cross_entropy(x[0], x[1], target, o).sum;
  }
  template <class F>
  Tensors run(const F& f, at::ScalarType type) const {
    const auto x = leaves(type);
    const auto sum = f(x);
    const auto start = at::full({}, 0.37, sum.scalar_type());
    auto all = torch::autograd::grad({sum}, x, {start});
    all.push_back(sum.detach());
    return all;
  }
  Tensors run_plain(at::ScalarType type) const {
    return run([&](auto& x) { return plain(x); }, type);
  }
  Tensors run_ours(at::ScalarType type) const {
    return run([&](auto& x) { return ours(x); }, type);
  }
};

TEST_CASE("linear_cross_entropy: it equals cross_entropy of linear, with its gradients") {
  for (const auto& p : problems()) {
    CAPTURE(p.what);
    const Sample sample(p);
    const auto exact = sample.run_plain(at::kDouble), got = sample.run_ours(at::kDouble);
    REQUIRE(got.size() == exact.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(error(got[i], exact[i]) < 1e-12);
    const auto loss = linear_cross_entropy(sample.hidden, sample.weight, sample.target, p.options);
    CHECK(loss.count.value() == sample.target.ne(p.options.ignore_index).sum().item<double>());
    CHECK(same_bits(got, sample.run_ours(at::kDouble)));
  }
}

TEST_CASE("linear_cross_entropy: it rounds at most about twice as much as the plain form") {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto sharpness : {1.0, 12.0})
      for (const auto& p : problems()) {
        const auto where = std::string(c10::toString(type)) + ", " + p.what;
        CAPTURE(where);
        const Sample sample(p, sharpness);
        const auto exact = sample.run_plain(at::kDouble), plain = sample.run_plain(type),
                   ours = sample.run_ours(type);
        const double unit = type == at::kFloat ? 0x1p-20 : type == at::kHalf ? 0x1p-11 : 0x1p-8;
        for (std::size_t i = 0; i < ours.size(); ++i) {
          CHECK((ours[i].scalar_type() == plain[i].scalar_type()));
          CHECK(error(ours[i], exact[i]) <= 2 * (error(plain[i], exact[i]) + unit));
        }
      }
}

TEST_CASE("linear_cross_entropy: the loss of an unlikely target is finite") {
  const auto hidden = at::ones({1, 1}), weight = at::tensor({0.0f, 400.0f}).unsqueeze(1);
  const auto loss = linear_cross_entropy(hidden, weight, at::zeros({1}, at::kLong));
  CHECK(loss.sum.item<float>() == 400);
}

TEST_CASE("linear_cross_entropy: under autocast products are cast and losses are not") {
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const auto& p : problems()) {
      const Sample sample(p);
      const auto in = [&](auto&& f) {
        return sample.run(
            [&](auto& x) {
              const Autocast scope(type);
              return f(x);
            },
            at::kFloat);
      };
      const auto exact = sample.run_plain(at::kDouble);
      const auto plain = in([&](auto& x) { return sample.plain(x); }),
                 ours = in([&](auto& x) { return sample.ours(x); });
      const double unit = type == at::kHalf ? 0x1p-11 : 0x1p-8;
      for (std::size_t i = 0; i < ours.size(); ++i) {
        CHECK((ours[i].scalar_type() == at::kFloat));
        CHECK(error(ours[i], exact[i]) <= 2 * (error(plain[i], exact[i]) + unit));
      }
    }
}

TEST_CASE("linear_cross_entropy: the gradient of a half precision weight is accumulated in FP32") {
  // 512 equal parts of 1/512: in BF16 a running sum stops growing at 256 of them.
  const auto hidden = at::ones({512, 1}, at::kBFloat16);
  auto weight = at::zeros({2, 1}, at::kBFloat16).set_requires_grad(true);
  const auto target = at::zeros({512}, at::kLong);
  linear_cross_entropy(hidden, weight, target, {.chunk_rows = 1}).sum.backward();
  CHECK(weight.grad().to(at::kFloat)[0].item<float>() == -256);
}

TEST_CASE("linear_cross_entropy: only needed gradients are computed, and they are the same") {
  const Sample sample({"", {3, 7}, {.chunk_rows = 4}, true});
  const auto all = sample.run_ours(at::kFloat);
  for (std::size_t wanted = 0; wanted < 3; ++wanted) {
    auto x = sample.leaves(at::kFloat);
    for (std::size_t i = 0; i < 3; ++i) x[i].set_requires_grad(i == wanted);
    const auto start = at::full({}, 0.37);
    CHECK(same_bits(torch::autograd::grad({sample.ours(x)}, {x[wanted]}, {start})[0], all[wanted]));
  }
  auto x = sample.leaves(at::kFloat);
  const at::NoGradGuard no_grad;
  const auto sum = sample.ours(x);
  CHECK_FALSE(sum.requires_grad());
  CHECK(same_bits(sum, all[3]));
}

TEST_CASE("linear_cross_entropy: strided and expanded tensors are accepted") {
  const Sample sample({"", {4, 6}, {.chunk_rows = 5}});
  const auto want = sample.run_ours(at::kDouble);
  const auto strided = [](const at::Tensor& x) { return x.transpose(0, 1).contiguous().t(); };
  const auto h = sample.hidden.transpose(0, 1).contiguous().transpose(0, 1);
  auto x = Tensors{h.detach().set_requires_grad(true),
                   strided(sample.weight).detach().set_requires_grad(true)};
  const auto target = strided(sample.target);
  const auto sum = linear_cross_entropy(x[0], x[1], target, sample.problem.options).sum;
  const auto got = torch::autograd::grad({sum}, x, {at::full({}, 0.37, at::kDouble)});
  for (std::size_t i = 0; i < 2; ++i) CHECK(error(got[i], want[i]) < 1e-13);
  const auto row = at::randn({1, width}, at::kDouble).expand({5, width});
  const auto five = linear_cross_entropy(row, sample.weight, at::ones({5}, at::kLong)).sum,
             one = linear_cross_entropy(row[0], sample.weight, at::ones({}, at::kLong)).sum;
  CHECK(std::abs((five - 5 * one).item<double>()) < 1e-12);
}

TEST_CASE("linear_cross_entropy: it has a second derivative") {
  for (const auto& p : problems()) {
    CAPTURE(p.what);
    const Sample sample(p);
    const auto twice = [&](auto&& f) {
      const auto x = sample.leaves(at::kDouble);
      auto start = at::full({}, 0.37, at::kDouble).set_requires_grad(true);
      const auto first = torch::autograd::grad({f(x).pow(2)}, x, {start}, true, true);
      auto penalty = at::zeros({}, at::kDouble);
      for (const auto& g : first) penalty = penalty + g.pow(2).sum();
      auto from = x;
      from.push_back(start);
      auto second = torch::autograd::grad({penalty}, from);
      second.insert(second.end(), first.begin(), first.end());
      return second;
    };
    const auto exact = twice([&](auto& x) { return sample.plain(x); }),
               got = twice([&](auto& x) { return sample.ours(x); });
    for (std::size_t i = 0; i < exact.size(); ++i) CHECK(error(got[i], exact[i]) < 1e-10);
  }
}

}  // namespace test::linear_cross_entropies
