// modules::attention: masks of every dtype, and scales that are not above 0, in every form.
#include "attention_cases.hpp"

namespace test::attention_masks {

constexpr auto dtypes = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};

double unit_of(at::ScalarType type) {
  return type == at::kDouble  ? 0x1p-42
         : type == at::kFloat ? 0x1p-19
         : type == at::kHalf  ? 0x1p-9
                              : 0x1p-6;
}

/// The result, and the gradients of query, key, value and mask.
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
