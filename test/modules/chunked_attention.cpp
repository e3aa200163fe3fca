// Tests AttentionForm::Chunked with several chunks: results, dropout, memory and the choice of the
// form.
#include "attention_cases.hpp"

#include <ikebana/bridge/memory_counter.hpp>

namespace test::chunked_attention {

/// Returns cases that are long enough for several chunks of queries and a smaller last one.
std::vector<Case> long_cases() {
  const std::int64_t t = 300, s = 2100;
  return {
      {"plain", {1, 2, t, 8}, {1, 2, s, 8}, {1, 2, s, 8}},
      {"grouped", {2, 4, t, 8}, {2, 2, s, 8}, {2, 2, s, 8}, grouped()},
      {"causal", {1, 2, s, 4}, {1, 2, s, 4}, {1, 2, s, 6}, causal()},
      {"causal, fewer keys", {1, 2, s, 4}, {1, 2, t, 4}, {1, 2, t, 4}, causal()},
      {"causal, fewer queries", {1, 4, t, 4}, {1, 2, s, 4}, {1, 2, s, 4}, grouped(causal())},
      {"fully masked rows",
       {1, 2, t, 8},
       {1, 2, s, 8},
       {1, 2, s, 8},
       masked(with_fully_masked_rows(t, s))},
      {"mask of a batch",
       {2, 2, t, 8},
       {2, 2, s, 8},
       {2, 2, s, 8},
       masked(at::randn({2, 1, t, s}))},
      {"mask of a group",
       {1, 4, t, 8},
       {1, 2, s, 8},
       {1, 2, s, 8},
       grouped(masked(bools({1, 4, t, s})))},
      {"padding", {2, 2, t, 8}, {2, 2, s, 8}, {2, 2, s, 8}, masked(bools({2, 1, 1, s}))},
  };
}

TEST_CASE("chunked attention: several chunks equal the formula") {
  for (const auto& c : long_cases()) {
    CAPTURE(c.what);
    const Sample sample(c, at::kDouble);
    const auto exact = sample.exact(c.options),
               got = sample.run(by(c.options, AttentionForm::Chunked));
    for (std::size_t i = 0; i < 4; ++i) CHECK(error(got[i], exact[i]) < 1e-12);
  }
}

TEST_CASE(
    "chunked attention: dropout differs between chunks, and backward repeats that of forward") {
  const std::int64_t t = 300, s = 2100;
  const AttentionOptions o{.dropout_p = 0.25, .form = AttentionForm::Chunked};
  // With equal scores and one-hot values, the result is the weights of the first 50 keys.
  const auto q = at::zeros({1, 2, t, 8}), k = at::zeros({1, 2, s, 8});
  const auto v = at::eye(s).slice(1, 0, 50).expand({1, 2, s, 50});
  const auto weights = attention(q, k, v, o) * static_cast<double>(s);
  const auto kept = weights.ne(0);
  CHECK(std::abs(kept.to(at::kFloat).mean().item<double>() - 0.75) < 0.01);
  CHECK((weights.masked_select(kept) - 1 / 0.75).abs().max().item<double>() < 1e-4);
  CHECK_FALSE(same_bits(kept.select(2, 0), kept.select(2, t - 1)));
  // The result is linear in the value, so backward must use the dropout of forward.
  const auto x = random_leaf({1, 2, t, 8}, at::kDouble),
             keys = random_leaf({1, 2, s, 8}, at::kDouble),
             values = random_leaf({1, 2, s, 3}, at::kDouble);
  const auto out = attention(x, keys, values, o), seed = at::randn_like(out);
  const auto of_value = torch::autograd::grad({out}, {values}, {seed})[0];
  const auto difference = (of_value * values).sum() - (out * seed).sum();
  CHECK(std::abs(difference.item<double>()) < 1e-9);
}

TEST_CASE("chunked attention: memory is linear in the lengths") {
  ikebana::bridge::MemoryCounter counter(at::kCPU);
  const auto peak = [&](std::int64_t length, AttentionForm form) {
    const auto x = random_leaf({1, 2, length, 8});
    const auto before = counter.now();
    counter.reset_peak();
    attention(x, x, x, {.dropout_p = 0.1, .is_causal = true, .form = form}).sum().backward();
    return counter.peak() - before;
  };
  constexpr std::int64_t length = 3000, of_inputs = 2 * length * 8 * 4;
  CHECK(peak(length, AttentionForm::Chunked) < (4 * (4 << 20)) + 20 * of_inputs);
  CHECK(peak(length, AttentionForm::Composed) > 2 * length * length * 4);
}

TEST_CASE("chunked attention: it is chosen for large weights that no fused kernel avoids") {
  using Form = AttentionForm;
  const auto form = [](at::IntArrayRef sizes, const AttentionOptions& o) {
    const auto x = at::empty(sizes).set_requires_grad(true);
    return attention_form(x, x, x, o);
  };
  CHECK(form({8, 8, 1024, 64}, {.dropout_p = 0.1}) == Form::Composed);
  CHECK(form({8, 8, 1025, 64}, {.dropout_p = 0.1}) == Form::Chunked);
  CHECK(form({8, 8, 1025, 64}, {}) == Form::Fused);
  CHECK(std::string(name(Form::Chunked)) == "chunked");
}

TEST_CASE("chunked attention: the error of a second derivative names a form that has one") {
  const auto x = random_leaf({1, 2, 5, 4});
  const auto out = attention(x, x, x, {.form = AttentionForm::Chunked});
  const auto message = message_of<std::exception>(
      [&] { torch::autograd::grad({out.sum()}, {x}, {}, true, /*create_graph=*/true); });
  CHECK(contains(message, "AttentionForm::Composed"));
}

}  // namespace test::chunked_attention
