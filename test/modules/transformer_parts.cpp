// Tests modules::RMSNorm, Rotary and SwiGLU against their formulas.
#include "attention_cases.hpp"

#include <iostream>
#include <sstream>

#include <ikebana/modules/rms_norm.hpp>
#include <ikebana/modules/rotary.hpp>
#include <ikebana/modules/swiglu.hpp>

namespace test::transformer_parts {

using ikebana::modules::RMSNorm;
using ikebana::modules::RMSNormOptions;
using ikebana::modules::Rotary;
using ikebana::modules::SwiGLU;

TEST_CASE("RMSNorm, Rotary, SwiGLU: what docs/modules.md shows") {
  namespace modules = ikebana::modules;
  std::ostringstream lines;
  auto* terminal = std::cout.rdbuf(lines.rdbuf());

  const auto x = at::randn({2, 10, 64});
  modules::RMSNorm norm(64, modules::RMSNormOptions{.eps = 1e-6});
  modules::SwiGLU mlp(64, 172);
  std::cout << mlp(norm(x)).sizes() << '\n';

  // Queries (batch, heads, length, width of a head), the third to tenth position of a text.
  const modules::Rotary rotary(16);
  std::cout << rotary(at::randn({2, 4, 8, 16}), /*offset=*/2).sizes() << '\n';

  std::cout.rdbuf(terminal);
  CHECK(lines.str() == "[2, 10, 64]\n[2, 4, 8, 16]\n");
}

/// Returns the gradients of f() with respect to x, under a fixed gradient of the result, and the
/// result.
template <class F>
Tensors with_gradients(const F& f, Tensors x) {
  const auto out = f();
  auto all = torch::autograd::grad({out}, x, {at::cos(at::arange(out.numel())).view_as(out)});
  all.push_back(out.detach());
  return all;
}

TEST_CASE("RMSNorm: it equals x over the root of its mean square, times the weight") {
  struct Case {
    std::vector<std::int64_t> x, shape;
    RMSNormOptions options{};
  };
  const Case cases[] = {{{4, 7, 16}, {16}},
                        {{4, 7, 16}, {7, 16}},
                        {{16}, {16}, {.eps = 0.3}},
                        {{4, 16}, {16}, {.eps = 1e-6}},
                        {{4, 16}, {16}, {.elementwise_affine = false}}};
  for (const auto& c : cases)
    for (const auto type : {at::kDouble, at::kFloat}) {
      RMSNorm norm(c.shape, c.options);
      norm->to(type);
      CHECK(norm->parameters().size() == (c.options.elementwise_affine ? 1 : 0));
      for (auto& p : norm->parameters()) {
        CHECK(p.eq(1).all().item<bool>());
        const at::NoGradGuard no_grad;
        p.uniform_(0.5, 2);
      }
      const auto x = random_leaf(c.x, type),
                 wide = x.detach().to(at::kDouble).set_requires_grad(true);
      const auto exact = [&](const at::Tensor& weight) {
        std::vector<std::int64_t> last = {-1};
        if (c.shape.size() == 2) last.push_back(-2);
        const auto default_eps = type == at::kDouble ? 0x1p-52 : 0x1p-23;
        return wide / (wide.pow(2).mean(last, true) + c.options.eps.value_or(default_eps)).sqrt() *
               weight;
      };
      const auto weight = c.options.elementwise_affine
                              ? norm->weight.detach().to(at::kDouble).set_requires_grad(true)
                              : at::ones({}, at::kDouble);
      Tensors ours = {x}, theirs = {wide};
      if (c.options.elementwise_affine) ours.push_back(norm->weight), theirs.push_back(weight);
      const auto got = with_gradients([&] { return norm(x); }, ours),
                 want = with_gradients([&] { return exact(weight); }, theirs);
      for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(error(got[i], want[i]) < (type == at::kDouble ? 1e-12 : 1e-5));
    }
}

TEST_CASE("RMSNorm: half precision rounds at most about twice as much as LibTorch's") {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    RMSNorm norm(64);
    const auto x = random_leaf({40, 64}, type),
               wide = x.detach().to(at::kDouble).set_requires_grad(true);
    auto weight = at::rand({64}, at::kDouble).add_(0.5).to(type).set_requires_grad(true);
    norm->weight = weight;
    const auto w = weight.detach().to(at::kDouble).set_requires_grad(true);
    const auto ours = with_gradients([&] { return norm(x); }, {x, weight}),
               theirs =
                   with_gradients([&] { return at::rms_norm(x, {64}, weight, {}); }, {x, weight}),
               exact =
                   with_gradients([&] { return at::rms_norm(wide, {64}, w, 0x1p-23); }, {wide, w});
    const double unit = type == at::kHalf ? 0x1p-11 : 0x1p-8;
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK((ours[i].scalar_type() == type));
      CHECK(error(ours[i], exact[i]) <= 2 * (error(theirs[i], exact[i]) + unit));
    }
  }
}

TEST_CASE("RMSNorm: it has a second derivative, and throws where LibTorch throws") {
  RMSNorm norm(8);
  norm->to(at::kDouble);
  const auto x = random_leaf({5, 8}, at::kDouble);
  const auto twice = [&](auto&& f) {
    const Tensors from = {x, norm->weight};
    const auto first = torch::autograd::grad({f().pow(3).sum()}, from, {}, true, true);
    return torch::autograd::grad({first[0].pow(2).sum() + first[1].pow(2).sum()}, from);
  };
  const auto got = twice([&] { return norm(x); }),
             want = twice([&] { return at::rms_norm(x, {8}, norm->weight, {}); });
  for (std::size_t i = 0; i < 2; ++i) CHECK(error(got[i], want[i]) < 1e-10);
  CHECK(contains(message_of([&] { norm(at::randn({5, 7}, at::kDouble)); }), "normalized_shape"));
  CHECK(norm(at::randn({0, 8}, at::kDouble)).sizes() == at::IntArrayRef({0, 8}));
}

TEST_CASE("SwiGLU: it equals down(silu(gate) * up), with Llama's parameter names") {
  SwiGLU mlp(6, 10);
  mlp->to(at::kDouble);
  std::vector<std::string> names;
  for (const auto& p : mlp->named_parameters()) names.push_back(p.key());
  CHECK(names ==
        std::vector<std::string>{"gate_proj.weight", "up_proj.weight", "down_proj.weight"});
  const auto x = random_leaf({3, 5, 6}, at::kDouble);
  const auto p = mlp->parameters();
  const auto exact = [&] {
    const auto gate = x.matmul(p[0].t());
    return (gate / (1 + (-gate).exp()) * x.matmul(p[1].t())).matmul(p[2].t());
  };
  const Tensors from = {x, p[0], p[1], p[2]};
  const auto got = with_gradients([&] { return mlp(x); }, from), want = with_gradients(exact, from);
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(error(got[i], want[i]) < 1e-12);
}

/// Computes the definition, by a loop over pairs, in double precision.
at::Tensor rotated(const at::Tensor& x, const at::Tensor& positions, double base) {
  const auto half = x.size(-1) / 2;
  std::vector<at::Tensor> first, second;
  for (std::int64_t i = 0; i < half; ++i) {
    const auto frequency =
        std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(2 * half));
    const auto angle = positions.to(at::kDouble) * frequency;
    const auto a = x.select(-1, i), b = x.select(-1, i + half);
    first.push_back(a * angle.cos() - b * angle.sin());
    second.push_back(b * angle.cos() + a * angle.sin());
  }
  first.insert(first.end(), second.begin(), second.end());
  return at::stack(first, -1);
}

TEST_CASE("Rotary: each pair of features is rotated by the angle of its position") {
  for (const double base : {10000.0, 500.0})
    for (const std::int64_t offset : {0, 1, 40}) {
      const Rotary rotary(8, base);
      const auto x = random_leaf({2, 3, 5, 8}, at::kDouble);
      const auto positions = at::arange(offset, offset + 5);
      const auto got = with_gradients([&] { return rotary(x, offset); }, {x}),
                 want = with_gradients([&] { return rotated(x, positions, base); }, {x});
      for (std::size_t i = 0; i < 2; ++i) CHECK(error(got[i], want[i]) < 1e-12);
      CHECK(same_bits(rotary(x, positions), rotary(x, offset)));
    }
}

TEST_CASE("Rotary: each row may have its own positions") {
  const Rotary rotary(8);
  const auto x = at::randn({2, 3, 4, 8});
  const auto positions = at::tensor({0, 1, 2, 3, 7, 8, 9, 10}).view({2, 4});
  const auto got = rotary(x, positions);
  CHECK(same_bits(got[0], rotary(x[0], 0)));
  CHECK(same_bits(got[1], rotary(x[1], 7)));
}

TEST_CASE("Rotary: a product of two vectors depends only on the distance of their positions") {
  const Rotary rotary(16);
  const auto q = at::randn({1, 16}, at::kDouble), k = at::randn({1, 16}, at::kDouble);
  const auto near = (rotary(q, 5) * rotary(k, 2)).sum(),
             far = (rotary(q, 105) * rotary(k, 102)).sum();
  CHECK(std::abs((near - far).item<double>()) < 1e-10);
  CHECK(std::abs((rotary(q, 5) * rotary(k, 3)).sum().item<double>() - near.item<double>()) > 1e-6);
}

TEST_CASE("Rotary: half precision is rotated in FP32, whatever the dtype of earlier calls") {
  const Rotary rotary(8);
  const auto x = at::randn({3, 5, 8});
  for (const auto type : {at::kBFloat16, at::kDouble, at::kHalf, at::kFloat}) {
    const auto y = x.to(type), wide = type == at::kDouble ? y : y.to(at::kFloat);
    CHECK((rotary(y, 3).scalar_type() == type));
    CHECK(same_bits(rotary(y, 3), rotary(wide, 3).to(type)));
    CHECK(same_bits(rotary(y, 3), Rotary(8)(y, 3)));
    CHECK(same_bits(rotary(y, 300).slice(1, 0, 2), Rotary(8)(y.slice(1, 0, 2), 300)));
  }
}

TEST_CASE("Rotary: arguments that do not fit are errors") {
  const auto message_for = [](auto&& f) { return message_of<Error>(f); };
  CHECK(contains(message_for([] { Rotary r(7); }), "width is 7; it must be the width of one head"));
  CHECK(contains(message_for([] { Rotary r(8, 0); }), "must be positive"));
  const Rotary rotary(8);
  CHECK(contains(message_for([&] { rotary(at::randn({2, 5, 6})); }), "(..., T, 8)"));
  CHECK(contains(message_for([&] { rotary(at::randn({5, 8}), -1); }), "count from 0"));
  CHECK(contains(message_for([&] { rotary(at::randn({5, 8}), at::arange(4)); }),
                 "with positions [4]"));
  CHECK(contains(message_for([&] { rotary(at::ones({5, 8}, at::kInt)); }), "floating dtype"));
}

}  // namespace test::transformer_parts
