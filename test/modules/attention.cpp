#include "test.hpp"

#include <ATen/autocast_mode.h>

#include <cmath>
#include <functional>
#include <optional>

#include <ikebana/modules/attention.hpp>

namespace {

using ikebana::Error;
using ikebana::modules::attention;
using ikebana::modules::attention_form;
using ikebana::modules::AttentionForm;
using ikebana::modules::AttentionOptions;
using test::contains;
using test::message_of;
using test::same_bits;
using Tensors = std::vector<at::Tensor>;

struct Case {
  const char* what;
  std::vector<std::int64_t> q, k, v;
  AttentionOptions options{};
};

AttentionOptions causal() { return {.is_causal = true}; }
AttentionOptions masked(const at::Tensor& mask) { return {.attn_mask = mask}; }
AttentionOptions grouped(AttentionOptions o = {}) {
  o.enable_gqa = true;
  return o;
}
at::Tensor bools(at::IntArrayRef sizes) { return at::rand(sizes) < 0.6; }
// Rows 1 and 3 see no key at all.
at::Tensor with_dead_rows(std::int64_t t, std::int64_t s) {
  auto mask = bools({t, s});
  mask[1] = false;
  mask[3] = false;
  mask[0] = true;
  return mask;
}
at::Tensor hidden(const at::Tensor& mask) {
  return at::zeros(mask.sizes()).masked_fill(mask.logical_not(), -INFINITY);
}

/// Every meaning of every option, on sizes where one chunk, several and a rest occur.
std::vector<Case> cases() {
  return {
      {"plain", {2, 4, 24, 16}, {2, 4, 24, 16}, {2, 4, 24, 16}},
      {"causal", {2, 4, 24, 16}, {2, 4, 24, 16}, {2, 4, 24, 16}, causal()},
      {"fewer queries", {2, 3, 9, 8}, {2, 3, 31, 8}, {2, 3, 31, 8}},
      {"causal, fewer queries", {2, 3, 9, 8}, {2, 3, 31, 8}, {2, 3, 31, 8}, causal()},
      {"causal, fewer keys", {2, 3, 31, 8}, {2, 3, 9, 8}, {2, 3, 9, 8}, causal()},
      {"one query", {2, 3, 1, 8}, {2, 3, 40, 8}, {2, 3, 40, 8}},
      {"one key", {2, 3, 8, 8}, {2, 3, 1, 8}, {2, 3, 1, 8}},
      {"other value width", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 20}, causal()},
      {"scale", {2, 3, 12, 8}, {2, 3, 12, 8}, {2, 3, 12, 8}, {.scale = 0.7}},
      {"negative scale", {2, 3, 12, 8}, {2, 3, 12, 8}, {2, 3, 12, 8}, {.scale = -0.7}},
      {"scale zero", {2, 3, 12, 8}, {2, 3, 12, 8}, {2, 3, 12, 8}, {.scale = 0.0}},
      {"bool mask", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8}, masked(bools({12, 14}))},
      {"dead rows", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8}, masked(with_dead_rows(12, 14))},
      {"dead rows, added", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8},
       masked(hidden(with_dead_rows(12, 14)))},
      {"padding", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8}, masked(bools({2, 1, 1, 14}))},
      {"mask of a batch", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8},
       masked(at::randn({2, 1, 12, 14}))},
      {"mask of a head", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8},
       masked(at::randn({1, 3, 12, 14}))},
      {"mask of three dimensions", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8},
       masked(at::randn({3, 12, 14}))},
      {"full mask", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8}, masked(bools({2, 3, 12, 14}))},
      {"mask of queries", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8}, masked(bools({12, 1}))},
      {"grouped", {2, 6, 12, 8}, {2, 2, 14, 8}, {2, 2, 14, 8}, grouped()},
      {"grouped, causal", {2, 6, 12, 8}, {2, 2, 14, 8}, {2, 2, 14, 8}, grouped(causal())},
      {"grouped, full mask", {2, 6, 12, 8}, {2, 2, 14, 8}, {2, 2, 14, 8},
       grouped(masked(bools({2, 6, 12, 14})))},
      {"grouped, mask of a head", {2, 6, 12, 8}, {2, 2, 14, 8}, {2, 2, 14, 8},
       grouped(masked(at::randn({1, 6, 12, 14})))},
      {"grouped, padding", {2, 6, 12, 8}, {2, 2, 14, 8}, {2, 2, 14, 8},
       grouped(masked(bools({2, 1, 1, 14})))},
      {"grouped, one key head", {2, 6, 12, 8}, {2, 1, 14, 8}, {2, 1, 14, 12}, grouped(causal())},
      {"unequally grouped", {2, 6, 12, 8}, {2, 2, 14, 8}, {2, 3, 14, 8}, grouped()},
      {"three dimensions", {4, 12, 8}, {4, 14, 8}, {4, 14, 8}, causal()},
      {"three dimensions, mask", {4, 12, 8}, {4, 14, 8}, {4, 14, 8}, masked(bools({4, 12, 14}))},
      {"two dimensions", {12, 8}, {14, 8}, {14, 8}, masked(bools({12, 14}))},
      {"five dimensions", {2, 2, 3, 12, 8}, {2, 2, 3, 14, 8}, {2, 2, 3, 14, 8}, causal()},
      {"five dimensions, mask", {2, 2, 3, 12, 8}, {2, 2, 3, 14, 8}, {2, 2, 3, 14, 8},
       masked(bools({2, 1, 3, 12, 14}))},
      {"broadcast key", {2, 3, 12, 8}, {1, 3, 14, 8}, {3, 14, 8}},
      {"broadcast query", {1, 3, 12, 8}, {2, 3, 14, 8}, {2, 1, 14, 8}},
      {"several chunks", {2, 5, 200, 16}, {2, 5, 220, 16}, {2, 5, 220, 16}, causal()},
      {"several chunks, full mask", {1, 12, 200, 8}, {1, 12, 220, 8}, {1, 12, 220, 8},
       masked(bools({1, 12, 200, 220}))},
  };
}

at::Tensor leaf(const at::Tensor& x, at::ScalarType type) {
  return x.to(type).detach().clone().set_requires_grad(true);
}

/// What attention is, spelled out: the reference.
at::Tensor spelled(at::Tensor q, at::Tensor k, at::Tensor v, const AttentionOptions& o) {
  if (o.enable_gqa) {
    k = k.repeat_interleave(q.size(-3) / k.size(-3), -3);
    v = v.repeat_interleave(q.size(-3) / v.size(-3), -3);
  }
  auto scores = at::matmul(q, k.transpose(-1, -2));
  scores = scores * o.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  auto seen = at::ones({q.size(-2), k.size(-2)}, at::kBool);
  if (o.is_causal) seen = seen.tril();
  if (o.attn_mask) {
    if (o.attn_mask->scalar_type() == at::kBool) {
      seen = *o.attn_mask;
    } else {
      scores = scores + o.attn_mask->to(scores.scalar_type());
      seen = o.attn_mask->ne(-INFINITY);
    }
  }
  // exp(-inf) and 0 / 0 kept out of the graph, so that this can be differentiated twice.
  scores = scores.masked_fill(seen.logical_not(), 0);
  auto weights = (scores - scores.detach().amax(-1, true)).exp() * seen.to(scores.scalar_type());
  const auto sum = weights.sum(-1, true);
  return at::matmul(weights / (sum + sum.eq(0).to(sum.scalar_type())), v);
}

using Function = std::function<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)>;

struct Sample {
  Tensors inputs;
  at::Tensor seed;  // the gradient of the output

  Sample(const Case& c, at::ScalarType type, double sharpness = 1) {
    torch::manual_seed(7);
    inputs = {(at::randn(c.q) * sharpness).to(type), at::randn(c.k).to(type),
              at::randn(c.v).to(type)};
    seed = at::randn(spelled(inputs[0].to(at::kDouble), inputs[1].to(at::kDouble),
                             inputs[2].to(at::kDouble), c.options)
                         .sizes())
               .to(type);
  }

  /// Output, then the gradients of query, key and value, computed in `type`.
  Tensors run(const Function& f, at::ScalarType type) const {
    Tensors x;
    for (const auto& input : inputs) x.push_back(leaf(input, type));
    const auto out = f(x[0], x[1], x[2]);
    auto all = torch::autograd::grad({out}, x, {seed.to(type)});
    all.insert(all.begin(), out.detach());
    return all;
  }
  Tensors run(const Function& f) const { return run(f, inputs[0].scalar_type()); }
  Tensors exact(const AttentionOptions& o) const {
    return run([&](auto& q, auto& k, auto& v) { return spelled(q, k, v, o); }, at::kDouble);
  }
};

Function by(AttentionOptions o, AttentionForm form) {
  o.form = form;
  return [o](auto& q, auto& k, auto& v) { return attention(q, k, v, o); };
}
Function by_libtorch(const AttentionOptions& o) {
  return [o](auto& q, auto& k, auto& v) {
    return at::scaled_dot_product_attention(q, k, v, o.attn_mask, o.dropout_p, o.is_causal, o.scale,
                                            o.enable_gqa);
  };
}

/// |a - b| / |b| over all elements, with NaN counted as infinitely wrong.
double error(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  const auto size = b.norm().item<double>();
  const auto off = (a.to(at::kDouble) - b).norm().item<double>();
  if (std::isnan(off)) return INFINITY;
  return size > 1e-12 ? off / size : off;
}

constexpr auto forms = {AttentionForm::Fastest, AttentionForm::Fused, AttentionForm::Composed,
                        AttentionForm::Widened};

// Chunks are sized by the threads: with one thread, sizes here give several and a rest.
struct OneThread {
  int before = at::get_num_threads();
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(before); }
};

struct Autocast {
  explicit Autocast(at::ScalarType type) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, type);
  }
  ~Autocast() {
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
  }
};

at::Tensor some(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::randn(sizes).to(type).set_requires_grad(true);
}

std::string words(const Function& f, at::IntArrayRef q, at::IntArrayRef k, at::IntArrayRef v) {
  return message_of<Error>([&] { f(at::randn(q), at::randn(k), at::randn(v)); });
}

}  // namespace

TEST_CASE("attention: every form is the spelled-out attention, with its gradients") {
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
  // Sharp scores are where rounding them would show: weights lose what the scores are large.
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto sharpness : {1.0, 12.0})
      for (const auto& c : cases()) {
        const Sample sample(c, type, sharpness);
        const auto exact = sample.exact(c.options);
        const auto theirs = sample.run(by_libtorch(c.options));
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

TEST_CASE("attention: what LibTorch's takes strided or empty, it takes") {
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

TEST_CASE("attention: a mask can learn, with every form") {
  const Case c{"", {2, 4, 6, 8}, {2, 4, 7, 8}, {2, 4, 7, 8}};
  const Sample sample(c, at::kDouble);
  const auto grad_of_mask = [&](auto&& f) {
    auto mask = at::linspace(-1, 1, 4 * 6 * 7, at::kDouble).view({4, 6, 7}).set_requires_grad(true);
    const auto out = f(masked(mask));
    return torch::autograd::grad({out}, {mask}, {sample.seed})[0];
  };
  const auto& x = sample.inputs;
  const auto exact = grad_of_mask([&](auto o) { return spelled(x[0], x[1], x[2], o); });
  for (const auto form : forms) {
    const auto got = grad_of_mask([&](auto o) { return by(o, form)(x[0], x[1], x[2]); });
    CHECK(error(got, exact) < 1e-12);
  }
}

TEST_CASE("attention: only the gradients that are wanted are made, and they are the same") {
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

TEST_CASE("attention: the composed form can be differentiated again") {
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
        twice([&](auto& q, auto& k, auto& v) { return spelled(q, k, v, c.options); });
    const auto got = twice(by(c.options, AttentionForm::Composed));
    for (std::size_t i = 0; i < exact.size(); ++i) CHECK(error(got[i], exact[i]) < 1e-10);
  }
}

TEST_CASE("attention: dropout is LibTorch's to the draw, and repeats under a seed") {
  const Case c{"", {2, 6, 12, 8}, {2, 2, 14, 8}, {2, 2, 14, 8}, grouped(causal())};
  const Sample sample(c, at::kDouble);
  auto o = c.options;
  for (const double p : {0.0, 0.3, 1.0}) {
    o.dropout_p = p;
    const auto seeded = [&](const Function& f) {
      torch::manual_seed(3);
      auto all = sample.run(f);
      all.push_back(at::rand({4}));  // what is drawn next
      return all;
    };
    const auto theirs = seeded(by_libtorch(o));
    for (const auto form : forms) {
      const auto ours = seeded(by(o, form));
      for (std::size_t i = 0; i < 4; ++i) CHECK(error(ours[i], theirs[i]) < 1e-12);
      if (p < 1) CHECK(same_bits(ours[4], theirs[4]));
      CHECK(same_bits(ours, seeded(by(o, form))));
    }
  }
}

TEST_CASE("attention: dropout keeps the share it should, and the second derivative its draw") {
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

TEST_CASE("attention: half precision can be differentiated again") {
  const Case c{"", {2, 4, 20, 16}, {2, 4, 24, 16}, {2, 4, 24, 16}, causal()};
  const Sample sample(c, at::kBFloat16);
  const auto penalty = [&](const Function& f, at::ScalarType type) {
    Tensors x;
    for (const auto& input : sample.inputs) x.push_back(leaf(input, type));
    const auto g = torch::autograd::grad({f(x[0], x[1], x[2])}, x, {sample.seed.to(type)}, true,
                                         true)[0];
    return torch::autograd::grad({g.pow(2).sum()}, x);
  };
  const auto exact = penalty([&](auto& q, auto& k, auto& v) { return spelled(q, k, v, c.options); },
                             at::kDouble);
  const auto composed = by(c.options, AttentionForm::Composed);
  const auto got = penalty(composed, at::kBFloat16);
  const Autocast scope(at::kBFloat16);
  CHECK(same_bits(got, penalty(composed, at::kBFloat16)));
  for (std::size_t i = 0; i < 3; ++i) CHECK(error(got[i], exact[i]) < 0x1p-6);
}

TEST_CASE("attention: the choice is by shape, type and whether a backward comes") {
  using Form = AttentionForm;
  const auto form = [](at::ScalarType type, at::IntArrayRef sizes, AttentionOptions o = {}) {
    const auto x = some(sizes, type);
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

TEST_CASE("attention: the fastest form is the form it names, to the bit") {
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

TEST_CASE("attention: under autocast it is itself on cast inputs, to the bit") {
  for (const auto type : {at::kBFloat16, at::kHalf})
    for (const auto& c : cases()) {
      if (c.options.attn_mask && c.options.attn_mask->scalar_type() != at::kBool) continue;
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
        // LibTorch's own composition, which serves unequal groups, would be cast in its backward.
        if (form != AttentionForm::Composed || c.k[1] != c.v[1]) continue;
        const Autocast scope(type);
        CHECK(same_bits(outside, sample.run(inside)));
      }
    }
}

TEST_CASE("attention: mixed types and a float mask are cast by autocast") {
  const Autocast scope(at::kBFloat16);
  for (const auto form : forms) {
    const auto q = some({2, 4, 20, 16}), k = some({2, 4, 20, 16}, at::kBFloat16);
    const AttentionOptions o{.attn_mask = at::randn({20, 20}), .form = form};
    CHECK((attention(q, k, k, o).scalar_type() == at::kBFloat16));
    const auto doubles = some({2, 4, 20, 16}, at::kDouble);  // autocast leaves these
    const auto out = attention(doubles, doubles, doubles, {.form = form});
    CHECK((out.scalar_type() == at::kDouble));
  }
}

TEST_CASE("attention: an in-place change between forward and backward is an error") {
  for (const auto form : forms) {
    auto q = some({2, 4, 40, 32}), k = some({2, 4, 40, 32}), v = some({2, 4, 40, 32});
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

TEST_CASE("attention: what does not fit is one error with the sizes and the remedy") {
  using Sizes = at::IntArrayRef;
  const auto plain = by({}, AttentionForm::Fastest);
  CHECK(contains(words(plain, {2, 4, 8, 16}, {2, 4, 8, 12}, {2, 4, 8, 16}),
                 "query [2, 4, 8, 16], key [2, 4, 8, 12], value [2, 4, 8, 16] differ in width"));
  CHECK(contains(words(plain, {2, 4, 8, 16}, {2, 4, 8, 16}, {2, 4, 7, 16}), "differ in length"));
  CHECK(contains(words(plain, {2, 4, 8, 16}, {2, 2, 8, 16}, {2, 2, 8, 16}), "set enable_gqa"));
  CHECK(contains(words(plain, {2, 4, 8, 16}, {3, 4, 8, 16}, {2, 4, 8, 16}), "do not broadcast"));
  CHECK(contains(words(plain, {16}, {8, 16}, {8, 16}), "at least 2 dimensions"));
  const auto gqa = by(grouped(), AttentionForm::Fastest);
  CHECK(contains(words(gqa, {2, 4, 8, 16}, {2, 3, 8, 16}, {2, 3, 8, 16}), "divide the query's"));
  CHECK(contains(words(gqa, {8, 16}, {8, 16}, {8, 16}), "divide the query's"));
  CHECK(contains(words(plain, {4, 8, 16}, {3, 9, 16}, {3, 9, 16}),
                 "query [4, 8, 16], key [3, 9, 16], value [3, 9, 16] have unequal heads"));
  CHECK(contains(words(gqa, {2, 4, 8, 16}, {2, 0, 8, 16}, {2, 0, 8, 16}), "divide the query's"));

  const auto x = at::randn({2, 4, 8, 16});
  const auto refused = [&](AttentionOptions o) {
    return message_of<Error>([&] { attention(x, x, x, o); });
  };
  CHECK(contains(refused({.attn_mask = bools({8, 8}), .is_causal = true}), "is_causal"));
  CHECK(contains(refused({.dropout_p = 1.5}), "dropout_p 1.5"));
  CHECK(contains(refused({.dropout_p = -0.1}), "0 to 1"));
  CHECK(contains(refused({.dropout_p = std::nan("")}), "0 to 1"));
  for (const Sizes mask : {Sizes{8, 7}, Sizes{8}, Sizes{3, 8, 8}, Sizes{1, 2, 4, 8, 8}}) {
    const auto message = refused({.attn_mask = at::ones(mask, at::kBool)});
    CHECK(contains(message, "attn_mask ["));
    CHECK(contains(message, "broadcast to [2, 4, 8, 8]"));
  }
  CHECK(contains(refused({.attn_mask = at::randn({8, 8}, at::kDouble)}), "attn_mask of Double"));
  CHECK(contains(refused({.attn_mask = at::Tensor()}), "undefined attn_mask"));
  CHECK(contains(message_of<Error>([&] { attention(x, x.to(at::kDouble), x); }),
                 "are Float, Double and Float"));
  const auto whole = x.to(at::kInt);
  CHECK(contains(message_of<Error>([&] { attention(whole, whole, whole); }), "floating type"));
  CHECK(contains(message_of<Error>([&] { attention(x, x.to(at::kMeta), x); }),
                 "cpu, meta and cpu"));
  CHECK(contains(message_of<Error>([&] { attention(x, {}, x); }), "undefined"));
}
