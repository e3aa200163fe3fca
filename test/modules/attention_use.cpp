// Use of modules::attention: dropout, choice of the form, autocast, retained graphs and errors.
#include "attention_cases.hpp"

#include <iostream>
#include <sstream>

namespace test::attention_use {

std::string message_for(const Function& f, at::IntArrayRef q, at::IntArrayRef k,
                        at::IntArrayRef v) {
  return message_of<Error>([&] { f(at::randn(q), at::randn(k), at::randn(v)); });
}

TEST_CASE("attention: what docs/modules.md shows") {
  namespace modules = ikebana::modules;
  std::ostringstream lines;
  auto* terminal = std::cout.rdbuf(lines.rdbuf());

  // As in a transformer: batch 12, 64 positions, 4 heads of 32, views of one projection.
  const auto x = at::randn({12, 64, 3 * 128}, at::kBFloat16).requires_grad_();
  const auto heads = x.view({12, 64, 3, 4, 32}).permute({2, 0, 3, 1, 4});

  const auto out = modules::attention(heads[0], heads[1], heads[2], {.is_causal = true});
  out.sum().backward();

  const auto form = modules::attention_form(heads[0], heads[1], heads[2], {.is_causal = true});
  std::cout << out.sizes() << ' ' << modules::name(form) << '\n';

  std::cout.rdbuf(terminal);
  CHECK(lines.str() == "[12, 4, 64, 32] composed\n");
  CHECK(x.grad().norm().item<double>() > 0);
}

TEST_CASE("attention: dropout draws the numbers that LibTorch draws, and repeats under a seed") {
  const Case c{"", {2, 6, 12, 8}, {2, 2, 14, 8}, {2, 2, 14, 8}, grouped(causal())};
  const Sample sample(c, at::kDouble);
  auto o = c.options;
  for (const double p : {0.0, 0.3, 1.0}) {
    o.dropout_p = p;
    const auto seeded = [&](const Function& f) {
      torch::manual_seed(3);
      auto all = sample.run(f);
      all.push_back(at::rand({4}));  // the next numbers of the generator
      return all;
    };
    const auto theirs = seeded(by_libtorch(o));
    for (const auto form : forms) {
      const auto ours = seeded(by(o, form));
      CHECK(same_bits(ours, seeded(by(o, form))));
      if (form == AttentionForm::Chunked && p == 0.3) continue;  // has its own generators
      for (std::size_t i = 0; i < 4; ++i) CHECK(error(ours[i], theirs[i]) < 1e-12);
      if (p < 1) CHECK(same_bits(ours[4], theirs[4]));
    }
  }
}

TEST_CASE("attention: dropout keeps the right share, and create_graph the same numbers") {
  const auto q = at::zeros({4, 4, 64, 8}), v = at::eye(64).expand({4, 4, 64, 64});
  for (const auto form : forms) {
    // With equal scores and the identity as value, the result is the weights.
    const auto weights = attention(q, q, v, {.dropout_p = 0.25, .form = form}) * 64;
    const auto kept = weights.ne(0);
    CHECK(std::abs(kept.to(at::kFloat).mean().item<double>() - 0.75) < 0.01);
    CHECK((weights.masked_select(kept) - 1 / 0.75).abs().max().item<double>() < 1e-5);
  }
  auto x = at::randn({2, 3, 10, 8}, at::kDouble).set_requires_grad(true);
  const auto out = attention(x, x, x, {.dropout_p = 0.4, .form = AttentionForm::Composed});
  const auto seed = at::randn(out.sizes(), at::kDouble);
  const auto once = torch::autograd::grad({out}, {x}, {seed}, true)[0];
  const auto again = torch::autograd::grad({out}, {x}, {seed}, true, true)[0];
  CHECK(error(again, once) < 1e-12);
}

TEST_CASE("attention: the form is chosen by shape, dtype and whether gradients are needed") {
  using Form = AttentionForm;
  const auto form = [](at::ScalarType type, at::IntArrayRef sizes, AttentionOptions o = {}) {
    const auto x = random_leaf(sizes, type);
    return attention_form(x, x, x, o);
  };
  CHECK(form(at::kBFloat16, {12, 4, 64, 32}) == Form::Composed);
  CHECK(form(at::kBFloat16, {8, 6, 256, 64}, causal()) == Form::Composed);
  CHECK(form(at::kBFloat16, {4, 6, 512, 64}) == Form::Composed);
  CHECK(form(at::kBFloat16, {2, 6, 1024, 64}) == Form::Fused);
  CHECK(form(at::kBFloat16, {4, 4, 32, 32}) == Form::Widened);
  CHECK(form(at::kBFloat16, {64, 4, 16, 32}) == Form::Widened);
  CHECK(form(at::kBFloat16, {1, 1, 16, 16}) == Form::Fused);
  CHECK(form(at::kHalf, {8, 6, 256, 64}) == Form::Widened);
  for (const std::int64_t t : {16, 64, 256, 1024}) {
    CHECK(form(at::kFloat, {4, 4, t, 32}) == Form::Fused);
    CHECK(form(at::kFloat, {4, 4, t, 32}, {.dropout_p = 0.1}) == Form::Composed);
    const at::NoGradGuard no_grad;
    CHECK(form(at::kBFloat16, {4, 4, t, 32}) == Form::Fused);
  }
  CHECK(form(at::kBFloat16, {12, 4, 64, 32}, {.form = Form::Fused}) == Form::Fused);
  const auto x = at::randn({12, 4, 64, 32}, at::kBFloat16);
  CHECK(attention_form(x, x, x) == Form::Fused);
  const Autocast scope(at::kBFloat16);
  CHECK(form(at::kFloat, {12, 4, 64, 32}) == Form::Composed);
}

TEST_CASE("attention: the fastest form has the bits of the form that attention_form names") {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& c : cases()) {
      const Sample sample(c, type);
      Tensors x;
      for (const auto& input : sample.inputs) x.push_back(leaf(input, type));
      const auto form = attention_form(x[0], x[1], x[2], c.options);
      CHECK(same_bits(sample.run(by(c.options, AttentionForm::Fastest)),
                      sample.run(by(c.options, form))));
    }
}

TEST_CASE("attention: under autocast it has the bits of a call on cast inputs") {
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const auto& c : cases()) {
      for (const auto form : forms) {
        const std::string where = std::string(c.what) + ", " + name(form);
        CAPTURE(where);
        const Sample sample(c, at::kFloat);
        const auto cast = [&](auto& q, auto& k, auto& v) {
          return by(c.options, form)(q.to(type), k.to(type), v.to(type)).to(at::kFloat);
        };
        const auto outside = sample.run(cast);
        const auto inside = [&](auto& q, auto& k, auto& v) {
          const auto out = by(c.options, form)(q, k, v);
          REQUIRE((out.scalar_type() == type));
          return out.to(at::kFloat);
        };
        CHECK(same_bits(outside, sample.run([&](auto& q, auto& k, auto& v) {
          const Autocast scope(type);
          return inside(q, k, v);
        })));
        // LibTorch's own composition, used for unequal groups, would be cast in its backward.
        if (form != AttentionForm::Composed || c.k[1] != c.v[1]) continue;
        const Autocast scope(type);
        CHECK(same_bits(outside, sample.run(inside)));
      }
    }
}

TEST_CASE("attention: mixed dtypes and a float mask are cast by autocast") {
  const Autocast scope(at::kBFloat16);
  for (const auto form : forms) {
    const auto q = random_leaf({2, 4, 20, 16}), k = random_leaf({2, 4, 20, 16}, at::kBFloat16);
    const AttentionOptions o{.attn_mask = at::randn({20, 20}), .form = form};
    CHECK((attention(q, k, k, o).scalar_type() == at::kBFloat16));
    const auto doubles = random_leaf({2, 4, 20, 16}, at::kDouble);  // not cast by autocast
    const auto out = attention(doubles, doubles, doubles, {.form = form});
    CHECK((out.scalar_type() == at::kDouble));
  }
}

TEST_CASE("attention: an in-place change between forward and backward is an error") {
  for (const auto form : forms) {
    auto q = random_leaf({2, 4, 40, 32}), k = random_leaf({2, 4, 40, 32}),
         v = random_leaf({2, 4, 40, 32});
    const auto scaled = k * 2;
    const auto out = attention(q, scaled, v, {.form = form});
    scaled.detach().mul_(3);
    const auto message = message_of<c10::Error>([&] { out.sum().backward(); });
    CHECK(contains(message, "modified by an inplace operation"));
  }
}

TEST_CASE("attention: a retained graph gives the same gradients again") {
  const Case c{"", {12, 4, 64, 32}, {12, 4, 64, 32}, {12, 4, 64, 32}, causal()};
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Sample sample(c, type);
    Tensors x;
    for (const auto& input : sample.inputs) x.push_back(leaf(input, type));
    const auto out = attention(x[0], x[1], x[2], c.options);
    const auto once = torch::autograd::grad({out}, x, {sample.seed}, true);
    CHECK(same_bits(once, torch::autograd::grad({out}, x, {sample.seed}, true)));
    CHECK(same_bits(once, torch::autograd::grad({out}, x, {sample.seed})));
    CHECK(contains(message_of([&] { torch::autograd::grad({out}, x, {sample.seed}); }),
                   "second time"));
  }
}

TEST_CASE("attention: sizes that do not fit are an error with the sizes and the cure") {
  const auto plain = by({}, AttentionForm::Fastest);
  CHECK(contains(message_for(plain, {2, 4, 8, 16}, {2, 4, 8, 12}, {2, 4, 8, 16}),
                 "query [2, 4, 8, 16], key [2, 4, 8, 12], value [2, 4, 8, 16] differ in width"));
  CHECK(contains(message_for(plain, {2, 4, 8, 16}, {2, 4, 8, 16}, {2, 4, 7, 16}),
                 "differ in length"));
  CHECK(
      contains(message_for(plain, {2, 4, 8, 16}, {2, 2, 8, 16}, {2, 2, 8, 16}), "set enable_gqa"));
  CHECK(contains(message_for(plain, {2, 4, 8, 16}, {3, 4, 8, 16}, {2, 4, 8, 16}),
                 "do not broadcast"));
  CHECK(contains(message_for(plain, {16}, {8, 16}, {8, 16}), "at least 2 dimensions"));
  const auto gqa = by(grouped(), AttentionForm::Fastest);
  CHECK(contains(message_for(gqa, {2, 4, 8, 16}, {2, 3, 8, 16}, {2, 3, 8, 16}),
                 "divide the query's"));
  CHECK(contains(message_for(gqa, {8, 16}, {8, 16}, {8, 16}), "divide the query's"));
  CHECK(contains(message_for(plain, {4, 8, 16}, {3, 9, 16}, {3, 9, 16}),
                 "query [4, 8, 16], key [3, 9, 16], value [3, 9, 16] have unequal heads"));
  CHECK(contains(message_for(gqa, {2, 4, 8, 16}, {2, 0, 8, 16}, {2, 0, 8, 16}),
                 "divide the query's"));
}

TEST_CASE("attention: options, dtypes and devices that do not fit are errors") {
  const auto x = at::randn({2, 4, 8, 16});
  const auto refused = [&](AttentionOptions o) {
    return message_of<Error>([&] { attention(x, x, x, o); });
  };
  CHECK(contains(refused({.attn_mask = bools({8, 8}), .is_causal = true}), "is_causal"));
  CHECK(contains(refused({.dropout_p = 1.5}), "dropout_p 1.5"));
  CHECK(contains(refused({.dropout_p = -0.1}), "0 to 1"));
  CHECK(contains(refused({.dropout_p = std::nan("")}), "0 to 1"));
  const std::vector<std::vector<std::int64_t>> misfits = {{8, 7}, {8}, {3, 8, 8}, {1, 2, 4, 8, 8}};
  for (const auto& mask : misfits) {
    const auto message = refused({.attn_mask = at::ones(mask, at::kBool)});
    CHECK(contains(message, "attn_mask ["));
    CHECK(contains(message, "broadcast to [2, 4, 8, 8]"));
  }
  CHECK(contains(refused({.attn_mask = at::ones({8, 8}, at::kLong)}), "attn_mask of Long"));
  CHECK(contains(refused({.scale = std::nan("")}), "scale nan; it must be finite"));
  CHECK(contains(refused({.scale = INFINITY}), "scale inf; it must be finite"));
  CHECK(contains(refused({.attn_mask = at::Tensor()}), "undefined attn_mask"));
  CHECK(contains(message_of<Error>([&] { attention(x, x.to(at::kDouble), x); }),
                 "are Float, Double and Float"));
  const auto integers = x.to(at::kInt);
  CHECK(contains(message_of<Error>([&] { attention(integers, integers, integers); }),
                 "floating dtype"));
  CHECK(
      contains(message_of<Error>([&] { attention(x, x.to(at::kMeta), x); }), "cpu, meta and cpu"));
  CHECK(contains(message_of<Error>([&] { attention(x, {}, x); }), "undefined"));
}

}  // namespace test::attention_use
