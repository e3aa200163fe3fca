#pragma once
// The tests of modules share cases for every option of attention, and a reference implementation.
#include "test.hpp"

#include <ATen/autocast_mode.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ikebana/modules/attention.hpp>

namespace test {

using ikebana::Error;
using ikebana::modules::attention;
using ikebana::modules::attention_form;
using ikebana::modules::AttentionForm;
using ikebana::modules::AttentionOptions;
using Tensors = std::vector<at::Tensor>;

struct Case {
  const char* what;
  std::vector<std::int64_t> q, k, v;
  AttentionOptions options{};
};

inline AttentionOptions causal() { return {.is_causal = true}; }
inline AttentionOptions masked(const at::Tensor& mask) { return {.attn_mask = mask}; }
inline AttentionOptions grouped(AttentionOptions o = {}) {
  o.enable_gqa = true;
  return o;
}
inline at::Tensor bools(at::IntArrayRef sizes) { return at::rand(sizes) < 0.6; }
// Rows 1 and 3 attend to no key.
inline at::Tensor with_fully_masked_rows(std::int64_t t, std::int64_t s) {
  auto mask = bools({t, s});
  mask[1] = false;
  mask[3] = false;
  mask[0] = true;
  return mask;
}
inline at::Tensor additive(const at::Tensor& mask) {
  return at::zeros(mask.sizes()).masked_fill(mask.logical_not(), -INFINITY);
}

// clang-format off
inline std::vector<Case> ordinary_cases() {
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
      {"fully masked rows", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8},
       masked(with_fully_masked_rows(12, 14))},
      {"fully masked rows, added", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8},
       masked(additive(with_fully_masked_rows(12, 14)))},
      {"padding", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8}, masked(bools({2, 1, 1, 14}))},
      {"mask of a batch", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8},
       masked(at::randn({2, 1, 12, 14}))},
      {"mask of a head", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8},
       masked(at::randn({1, 3, 12, 14}))},
      {"mask of three dimensions", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8},
       masked(at::randn({3, 12, 14}))},
      {"full mask", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8}, masked(bools({2, 3, 12, 14}))},
      {"mask of queries", {2, 3, 12, 8}, {2, 3, 14, 8}, {2, 3, 14, 8}, masked(bools({12, 1}))},
  };
}
inline std::vector<Case> grouped_and_odd_cases() {
  return {
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
// clang-format on

/// Returns every option, at sizes with one chunk, with several chunks, and with a smaller last
/// chunk.
inline std::vector<Case> cases() {
  auto all = ordinary_cases();
  for (Case& c : grouped_and_odd_cases()) all.push_back(std::move(c));
  return all;
}

inline at::Tensor leaf(const at::Tensor& x, at::ScalarType type) {
  return x.to(type).detach().clone().set_requires_grad(true);
}

/// Computes the formula of attention, as a reference implementation.
inline at::Tensor reference(at::Tensor q, at::Tensor k, at::Tensor v, const AttentionOptions& o) {
  if (o.enable_gqa) {
    k = k.repeat_interleave(q.size(-3) / k.size(-3), -3);
    v = v.repeat_interleave(q.size(-3) / v.size(-3), -3);
  }
  auto scores = at::matmul(q, k.transpose(-1, -2));
  scores = scores * o.scale.value_or(1 / std::sqrt(static_cast<double>(q.size(-1))));
  auto visible = at::ones({q.size(-2), k.size(-2)}, at::kBool);
  if (o.is_causal) visible = visible.tril();
  if (o.attn_mask) {
    if (o.attn_mask->scalar_type() == at::kBool) {
      visible = *o.attn_mask;
    } else {
      scores = scores + o.attn_mask->to(scores.scalar_type());
      visible = o.attn_mask->ne(-INFINITY);
    }
  }
  // Keeps exp(-inf) and 0 / 0 out of the graph, so that a second derivative exists.
  scores = scores.masked_fill(visible.logical_not(), 0);
  auto weights = (scores - scores.detach().amax(-1, true)).exp() * visible.to(scores.scalar_type());
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
    seed = at::randn(reference(inputs[0].to(at::kDouble), inputs[1].to(at::kDouble),
                               inputs[2].to(at::kDouble), c.options)
                         .sizes())
               .to(type);
  }

  /// Returns the output, then the gradients of query, key and value, computed in `type`.
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
    return run([&](auto& q, auto& k, auto& v) { return reference(q, k, v, o); }, at::kDouble);
  }
};

inline Function by(AttentionOptions o, AttentionForm form) {
  o.form = form;
  return [o](auto& q, auto& k, auto& v) { return attention(q, k, v, o); };
}
inline Function by_libtorch(const AttentionOptions& o) {
  return [o](auto& q, auto& k, auto& v) {
    return at::scaled_dot_product_attention(q, k, v, o.attn_mask, o.dropout_p, o.is_causal, o.scale,
                                            o.enable_gqa);
  };
}

/// Returns |a - b| / |b| over all elements, or infinity if the difference has a NaN.
inline double error(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  const auto size = b.norm().item<double>();
  const auto difference = (a.to(at::kDouble) - b).norm().item<double>();
  if (std::isnan(difference)) return INFINITY;
  return size > 1e-12 ? difference / size : difference;
}

inline constexpr auto forms = {AttentionForm::Fastest, AttentionForm::Fused,
                               AttentionForm::Composed, AttentionForm::Widened,
                               AttentionForm::Chunked};

// The size of a chunk depends on the number of threads: with one thread, the cases above have
// several chunks and a smaller last one.
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

inline at::Tensor random_leaf(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
  return at::randn(sizes).to(type).set_requires_grad(true);
}

}  // namespace test
