// Tests every form of modules::attention against the reference, with first and second derivatives.
#include <memory>

#include "attention_cases.hpp"

namespace test::attention_forms {

TEST_CASE("attention: every form equals the formula, with its gradients") {
  const OneThread one;
  for (const auto& c : cases()) {
    const Sample sample(c, at::kDouble);
    const auto exact = sample.exact(c.options);
    for (const auto form : forms) {
      const std::string where = std::string(c.what) + ", " + name(form);
      CAPTURE(where);
      const auto got = sample.run(by(c.options, form));
      for (std::size_t i = 0; i < 4; ++i) CHECK(error(got[i], exact[i]) < 1e-12);
      const at::NoGradGuard no_grad;
      const auto& x = sample.inputs;
      CHECK(same_bits(by(c.options, form)(x[0], x[1], x[2]), got[0]));
    }
  }
}

TEST_CASE("attention: every form rounds at most about twice as much as LibTorch's") {
  const OneThread one;
  // Rounding errors of scores show most in large scores: the weights' relative error grows with
  // them.
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto sharpness : {1.0, 12.0})
      for (const auto& c : cases()) {
        const Sample sample(c, type, sharpness);
        const auto exact = sample.exact(c.options);
        // LibTorch has fused kernels for four dimensions only; it composes others, in FP32.
        const auto theirs = sample.run([&](auto& q, auto& k, auto& v) {
          const auto four = [](at::Tensor x) {
            while (x.dim() < 4) x = x.unsqueeze(0);
            return x;
          };
          const auto out = by_libtorch(c.options)(four(q), four(k), four(v));
          return q.dim() < 4 && out.dim() == 4 ? out.view(sample.seed.sizes()) : out;
        });
        const double unit = type == at::kFloat ? 0x1p-20 : type == at::kHalf ? 0x1p-11 : 0x1p-8;
        for (const auto form : forms) {
          const auto where = std::string(c10::toString(type)) + ", " + c.what + ", " + name(form);
          CAPTURE(where);
          const auto ours = sample.run(by(c.options, form));
          for (std::size_t i = 0; i < 4; ++i)
            CHECK(error(ours[i], exact[i]) <= 2 * (error(theirs[i], exact[i]) + unit));
        }
      }
}

TEST_CASE("attention: strided and empty tensors are accepted as by LibTorch") {
  const auto heads = [](at::Tensor x) { return x.view({2, 20, 3, 8}).transpose(1, 2); };
  const auto parts = at::randn({2, 20, 72}, at::kDouble).chunk(3, -1);
  for (const auto form : forms)
    for (const auto& swap : {false, true}) {
      auto q = heads(parts[0]), k = heads(parts[1]), v = heads(parts[2]);
      if (swap) k = k.transpose(2, 3).contiguous().transpose(2, 3);  // the last stride is not 1
      AttentionOptions o{.is_causal = true, .form = form};
      CHECK(error(attention(q, k, v, o), by_libtorch(o)(q, k, v)) < 1e-12);
    }
  const auto sizes = std::vector<std::vector<std::int64_t>>{
      {2, 3, 4, 8}, {2, 3, 0, 8}, {0, 3, 4, 8}, {2, 0, 4, 8}};
  for (const auto form : forms)
    for (const auto& q : sizes)
      for (const std::int64_t s : {0, 5}) {
        const auto k = at::randn({q[0], q[1], s, 8}), v = at::randn({q[0], q[1], s, 6});
        const auto out = attention(at::randn(q), k, v, {.form = form});
        CHECK(out.sizes() == at::IntArrayRef({q[0], q[1], q[2], 6}));
        if (s == 0) CHECK(out.eq(0).all().item<bool>());
      }
}

TEST_CASE("attention: a mask can require a gradient, in every form") {
  const Case c{"", {2, 4, 6, 8}, {2, 4, 7, 8}, {2, 4, 7, 8}};
  const Sample sample(c, at::kDouble);
  const auto grad_of_mask = [&](auto&& f) {
    auto mask = at::linspace(-1, 1, 4 * 6 * 7, at::kDouble).view({4, 6, 7}).set_requires_grad(true);
    const auto out = f(masked(mask));
    return torch::autograd::grad({out}, {mask}, {sample.seed})[0];
  };
  const auto& x = sample.inputs;
  const auto exact = grad_of_mask([&](auto o) { return reference(x[0], x[1], x[2], o); });
  for (const auto form : forms) {
    const auto got = grad_of_mask([&](auto o) { return by(o, form)(x[0], x[1], x[2]); });
    CHECK(error(got, exact) < 1e-12);
  }
}

TEST_CASE("attention: only the gradients that are needed are computed, and they are the same") {
  const Case c{"", {2, 4, 20, 16}, {2, 4, 24, 16}, {2, 4, 24, 16}};
  const Sample sample(c, at::kBFloat16);
  const auto all = sample.run(by(causal(), AttentionForm::Composed));
  for (unsigned wanted = 1; wanted < 8; ++wanted) {
    Tensors x, to;
    for (unsigned i = 0; i < 3; ++i) {
      x.push_back(sample.inputs[i].detach().clone().set_requires_grad((wanted >> i & 1) != 0));
      if (x[i].requires_grad()) to.push_back(x[i]);
    }
    const auto out = by(causal(), AttentionForm::Composed)(x[0], x[1], x[2]);
    const auto got = torch::autograd::grad({out}, to, {sample.seed});
    for (unsigned i = 0, n = 0; i < 3; ++i)
      if (wanted >> i & 1) CHECK(same_bits(got[n++], all[i + 1]));
  }
}

TEST_CASE("attention: the composed form has a second derivative") {
  for (const auto& c : cases()) {
    const std::string what = c.what;
    CAPTURE(what);
    const Sample sample(c, at::kDouble);
    const auto twice = [&](const Function& f) {
      Tensors x;
      for (const auto& input : sample.inputs) x.push_back(leaf(input, at::kDouble));
      auto seed = leaf(sample.seed, at::kDouble);
      const auto first = torch::autograd::grad({f(x[0], x[1], x[2])}, x, {seed}, true, true);
      auto penalty = at::zeros({}, at::kDouble);
      for (const auto& g : first) penalty = penalty + g.pow(2).sum();
      x.push_back(seed);
      auto second = torch::autograd::grad({penalty}, x);
      second.insert(second.end(), first.begin(), first.end());
      return second;
    };
    const auto exact =
        twice([&](auto& q, auto& k, auto& v) { return reference(q, k, v, c.options); });
    const auto got = twice(by(c.options, AttentionForm::Composed));
    for (std::size_t i = 0; i < exact.size(); ++i) CHECK(error(got[i], exact[i]) < 1e-10);
  }
}

TEST_CASE("attention: half precision has a second derivative") {
  const Case c{"", {2, 4, 20, 16}, {2, 4, 24, 16}, {2, 4, 24, 16}, causal()};
  const Sample sample(c, at::kBFloat16);
  // The first derivative of the query, then the second ones.
  const auto penalty = [&](const Function& f, at::ScalarType type, bool autocast) {
    Tensors x;
    for (const auto& input : sample.inputs) x.push_back(leaf(input, type));
    const auto out = f(x[0], x[1], x[2]);
    const auto first = [&] {
      const auto scope = autocast ? std::make_unique<Autocast>(type) : nullptr;
      return torch::autograd::grad({out}, x, {sample.seed.to(type)}, true, true)[0];
    }();
    auto all = torch::autograd::grad({first.pow(2).sum()}, x);
    all.push_back(first.detach());
    return all;
  };
  const auto formula = [&](auto& q, auto& k, auto& v) { return reference(q, k, v, c.options); };
  const auto exact = penalty(formula, at::kDouble, false);
  const auto composed = by(c.options, AttentionForm::Composed);
  const auto got = penalty(composed, at::kBFloat16, false);
  for (std::size_t i = 0; i < 4; ++i) CHECK(error(got[i], exact[i]) < 0x1p-6);
  CHECK(same_bits(got, penalty(composed, at::kBFloat16, true)));
}

}  // namespace test::attention_forms

namespace test::attention_masks {

constexpr auto dtypes = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};

double unit_of(at::ScalarType type) {
  return type == at::kDouble  ? 0x1p-42
         : type == at::kFloat ? 0x1p-19
         : type == at::kHalf  ? 0x1p-9
                              : 0x1p-6;
}

/// Returns the result, and the gradients of query, key, value and mask.
Tensors run(const Tensors& given, const at::Tensor& seed, at::ScalarType type, const Function& f,
            const at::Tensor& mask) {
  Tensors x;
  for (const auto& input : given) x.push_back(leaf(input, type));
  if (mask.requires_grad()) x.push_back(mask);
  const auto out = f(x[0], x[1], x[2]);
  auto all = torch::autograd::grad({out}, x, {seed.to(out.scalar_type())});
  all.insert(all.begin(), out.detach());
  return all;
}

/// Compares every form with the formula in double, of the rounded inputs and mask.
void check_mask(const Sample& sample, at::ScalarType type, const at::Tensor& mask, double unit) {
  auto exact_mask = mask.to(at::kDouble).detach().set_requires_grad(mask.requires_grad());
  const auto formula = [&](auto& q, auto& k, auto& v) {
    return reference(q, k, v, masked(exact_mask));
  };
  const auto exact = run(sample.inputs, sample.seed, at::kDouble, formula, exact_mask);
  for (const auto form : forms) {
    const std::string where = std::string(c10::toString(type)) + " with a mask of " +
                              c10::toString(mask.scalar_type()) + ", " + name(form);
    CAPTURE(where);
    const auto got = run(sample.inputs, sample.seed, type, by(masked(mask), form), mask);
    REQUIRE(got.size() == exact.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      CHECK(error(got[i], exact[i]) < unit);
    }
    if (mask.requires_grad()) CHECK((got[4].scalar_type() == mask.scalar_type()));
  }
}

TEST_CASE("attention: a mask may have any floating dtype beside any dtype of the query") {
  const Case fours{"", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8}},
      long_ones{"", {1, 2, 40, 16}, {1, 2, 48, 16}, {1, 2, 48, 16}},
      matrix{"", {12, 8}, {14, 8}, {14, 8}};
  for (const auto& c : {fours, long_ones, matrix})
    for (const auto type : dtypes)
      for (const auto mask_type : dtypes)
        for (const bool grad : {false, true}) {
          const Sample sample(c, type);
          const auto t = c.q[c.q.size() - 2], s = c.k[c.k.size() - 2];
          auto mask = at::randn({t, s}).to(mask_type);
          if (!grad) mask.slice(1, 3, 6).fill_(-INFINITY), mask[1].fill_(-INFINITY);
          mask.set_requires_grad(grad);
          check_mask(sample, type, mask, std::max(unit_of(type), grad ? unit_of(mask_type) : 0));
        }
}

TEST_CASE("attention: a mask of -1e9 hides keys like -infinity, and a whole row evenly") {
  const Case c{"", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8}};
  for (const auto type : dtypes) {
    const Sample sample(c, type);
    auto mask = at::zeros({12, 14});
    mask.slice(1, 3, 6).fill_(-1e9), mask[1].fill_(-1e9);
    // Row 1 of the scores is rounded away beside 1e9 in FP32, not in FP64: only the result is
    // compared, with a mask whose row leaves nothing to rounding.
    for (const auto form : forms) {
      const auto got = by(masked(mask), form)(sample.inputs[0], sample.inputs[1], sample.inputs[2]);
      const auto v = sample.inputs[2].to(at::kDouble);
      const std::string which = name(form);
      CAPTURE(which);
      CHECK(got.isfinite().all().item<bool>());
      if (type == at::kDouble) continue;
      const auto even = v.mean(2);
      CHECK(error(got.select(2, 1), even) < 2 * unit_of(type));
    }
  }
}

TEST_CASE("attention: under autocast a mask of any dtype is not rounded") {
  const Case c{"", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8}};
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const auto mask_type : dtypes) {
      const Sample rounded(c, type);
      const auto mask = (at::randn({12, 14}) * 4).to(mask_type);
      for (const auto form : forms) {
        const auto f = by(masked(mask), form);
        const auto outside = rounded.run(f);
        const auto inside = rounded.run([&](auto& q, auto& k, auto& v) {
          const Autocast scope(type);
          return f(q.to(at::kFloat), k.to(at::kFloat), v.to(at::kFloat));
        });
        const std::string which = name(form);
        CAPTURE(which);
        CHECK(same_bits(outside, inside));
      }
    }
}

TEST_CASE("attention: a causal call with a scale of 0 or below equals the formula") {
  const Case fours{"", {2, 3, 9, 8}, {2, 3, 11, 8}, {2, 3, 11, 8}},
      groups{"", {2, 6, 9, 8}, {2, 2, 11, 8}, {2, 2, 11, 8}, grouped()},
      wide{"", {2, 3, 40, 8}, {2, 3, 40, 8}, {2, 3, 40, 6}}, matrix{"", {9, 8}, {9, 8}, {9, 8}};
  for (const auto& c : {fours, groups, wide, matrix})
    for (const auto type : dtypes)
      for (const double scale : {-0.7, -1e-3, -0.0, 0.0, 1e-300}) {
        const Sample sample(c, type);
        AttentionOptions o = c.options;
        o.is_causal = true, o.scale = scale;
        const auto exact = sample.exact(o);
        for (const auto form : forms) {
          const auto got = sample.run(by(o, form));
          CAPTURE(scale);
          const std::string which = name(form);
          CAPTURE(which);
          for (std::size_t i = 0; i < 4; ++i) CHECK(error(got[i], exact[i]) < unit_of(type));
        }
      }
}

}  // namespace test::attention_masks
