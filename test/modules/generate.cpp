// Tests modules::generate, sampling, and the key and value cache.
#include "attention_cases.hpp"

#include <iostream>
#include <sstream>

#include <ikebana/modules/generate.hpp>
#include <ikebana/modules/rotary.hpp>

namespace test::generating {

using ikebana::modules::causal_at_end;
using ikebana::modules::generate;
using ikebana::modules::GenerateOptions;
using ikebana::modules::KVCache;
using ikebana::modules::probabilities;
using ikebana::modules::Rotary;
using ikebana::modules::SamplingOptions;

/// Two layers of attention with grouped heads, in double precision.
struct Model {
  std::int64_t layers = 2, heads = 4, groups = 2, width = 8, symbols = 30;
  at::Tensor embed = at::randn({symbols, heads* width}, at::kDouble);
  at::Tensor project = at::randn({layers, (heads + 2 * groups) * width, heads* width}, at::kDouble);
  Rotary rotary{width};

  at::Tensor operator()(const at::Tensor& tokens, KVCache& cache) const {
    auto x = embed.index({tokens});
    for (std::int64_t i = 0; i < layers; ++i) {
      const auto all = at::linear(x, project[i] * 0.3).unflatten(2, {-1, width}).transpose(1, 2);
      const auto part = [&](std::int64_t first, std::int64_t n) { return all.narrow(1, first, n); };
      const auto at = cache.length(i);
      const auto q = rotary(part(0, heads), at), k = rotary(part(heads, groups), at);
      const auto [keys, values] = cache.append(i, k, part(heads + groups, groups));
      auto o = causal_at_end(q, keys);
      o.enable_gqa = true;
      x = x + attention(q, keys, values, o).transpose(1, 2).flatten(2);
    }
    return at::linear(x, embed) * 0.2;
  }
  KVCache cache(std::int64_t batch, std::int64_t length) const {
    return KVCache({.layers = layers,
                    .batch = batch,
                    .heads = groups,
                    .max_length = length,
                    .width = width,
                    .dtype = at::kDouble});
  }
  at::Tensor operator()(const at::Tensor& tokens) const {
    auto empty_cache = cache(tokens.size(0), tokens.size(1));
    return (*this)(tokens, empty_cache);
  }
};

TEST_CASE("generate: what docs/modules.md shows") {
  namespace modules = ikebana::modules;
  torch::manual_seed(1);
  const Model model;
  std::ostringstream lines;
  auto* terminal = std::cout.rdbuf(lines.rdbuf());

  // Two rows of three tokens and up to five new ones; `model(tokens, cache)` returns the logits.
  const auto prompt = at::randint(30, {2, 3}, at::kLong);
  modules::KVCache cache(
      {.layers = 2, .batch = 2, .heads = 2, .max_length = 8, .width = 8, .dtype = at::kDouble});
  const modules::GenerateOptions options{
      .max_new_tokens = 5, .sampling = {.temperature = 0.8, .top_k = 10, .top_p = 0.9}, .seed = 7};
  const auto tokens = modules::generate(model, prompt, cache, options);
  std::cout << tokens.sizes() << ", " << cache.length() << " in the cache\n";

  std::cout.rdbuf(terminal);
  CHECK(lines.str() == "[2, 8], 7 in the cache\n");
  CHECK(same_bits(tokens, modules::generate(model, prompt, options)));
}

TEST_CASE("generate: the tokens are the same with the cache and without") {
  for (int seed = 0; seed < 10; ++seed) {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    const Model model;
    const auto prompt = at::randint(30, {3, 1 + seed % 4}, at::kLong);
    for (const SamplingOptions& sampling :
         {SamplingOptions{.temperature = 0}, SamplingOptions{}, SamplingOptions{.top_k = 4},
          SamplingOptions{.temperature = 1.7, .top_k = 9, .top_p = 0.6}}) {
      const GenerateOptions o{
          .max_new_tokens = 12, .sampling = sampling, .seed = static_cast<std::uint64_t>(seed)};
      auto cache = model.cache(3, 16);
      const auto with = generate(model, prompt, cache, o), without = generate(model, prompt, o);
      CHECK(with.sizes() == at::IntArrayRef({3, prompt.size(1) + 12}));
      CHECK(same_bits(with.slice(1, 0, prompt.size(1)), prompt));
      CHECK(same_bits(with, without));
    }
  }
}

TEST_CASE("generate: greedy decoding takes the most likely token given all tokens so far") {
  const Model model;
  const auto prompt = at::randint(30, {2, 3}, at::kLong);
  const auto tokens =
      generate(model, prompt, {.max_new_tokens = 6, .sampling = {.temperature = 0}});
  for (std::int64_t t = 3; t < 9; ++t) {
    const auto likeliest = model(tokens.slice(1, 0, t)).select(1, -1).argmax(-1);
    CHECK(same_bits(tokens.select(1, t), likeliest));
  }
}

TEST_CASE("generate: a seed repeats, seeds differ, and LibTorch's generator is not used") {
  const Model model;
  const auto prompt = at::randint(30, {4, 2}, at::kLong);
  const auto draw = [&](std::uint64_t seed) {
    return generate(model, prompt, {.max_new_tokens = 20, .seed = seed});
  };
  CHECK(same_bits(draw(3), draw(3)));
  CHECK_FALSE(same_bits(draw(3), draw(4)));
  torch::manual_seed(8);
  const auto next = at::rand({5});
  torch::manual_seed(8);
  draw(5);
  CHECK(same_bits(at::rand({5}), next));
}

TEST_CASE("generate: a row ends with its stop token, and generation when every row has one") {
  // Counts up from the last token; 0 follows 9.
  const auto counts = [](const at::Tensor& so_far) {
    return at::one_hot((so_far.slice(1, -1) + 1) % 10, 10).to(at::kFloat) * 50;
  };
  const auto tokens = [](at::IntArrayRef all) { return at::tensor(all, at::kLong).view({2, -1}); };
  const auto prompt = tokens({1, 4});
  GenerateOptions o{.max_new_tokens = 20, .stop_tokens = {6}};
  CHECK(same_bits(generate(counts, prompt, o), tokens({1, 2, 3, 4, 5, 6, 4, 5, 6, 6, 6, 6})));
  o.stop_tokens.clear();
  CHECK(generate(counts, prompt, o).size(1) == 21);
  o.max_new_tokens = 0;
  CHECK(same_bits(generate(counts, prompt, o), prompt));
}

TEST_CASE("generate: prompts of unequal lengths are continued as each of them alone") {
  for (int seed = 0; seed < 8; ++seed) {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    const Model model;
    std::vector<at::Tensor> prompts;
    for (const std::int64_t length : {3 + seed % 3, 1, 7, 3})
      prompts.push_back(at::randint(30, {length}, at::kLong));
    for (const std::int64_t n : {0, 1, 9})
      for (const bool stops : {false, true}) {
        GenerateOptions o{.max_new_tokens = n, .sampling = {.temperature = 0}};
        if (stops) o.stop_tokens = {prompts[2][5].item<std::int64_t>(), 4, 11, 12, 13};
        auto cache = model.cache(4, 7 + n);
        const auto with = generate(model, prompts, cache, o), without = generate(model, prompts, o);
        CAPTURE(seed);
        CAPTURE(n);
        CAPTURE(stops);
        REQUIRE(with.size() == 4);
        for (std::size_t row = 0; row < 4; ++row) {
          const auto alone = generate(model, prompts[row].unsqueeze(0), o)[0];
          CHECK(same_bits(with[row], alone));
          CHECK(same_bits(without[row], alone));
        }
      }
  }
}

TEST_CASE(
    "generate: prompts of unequal lengths are read in as few forwards as their tokens allow") {
  std::vector<std::int64_t> given;
  const auto counts = [&](const at::Tensor& tokens, int&) {
    given.push_back(tokens.size(1));
    return at::one_hot((tokens.slice(1, -1) + 1) % 10, 10).to(at::kFloat) * 50;
  };
  const auto tokens = [](at::IntArrayRef all) { return at::tensor(all, at::kLong); };
  int cache = 0;
  const auto texts = generate(counts, {tokens({1, 2, 6, 4, 5}), tokens({7, 6}), tokens({3, 3, 3})},
                              cache, {.max_new_tokens = 4, .stop_tokens = {6}});
  CHECK(given == std::vector<std::int64_t>{2, 1, 1, 1});
  CHECK(same_bits(texts[0], tokens({1, 2, 6, 4, 5, 6})));
  CHECK(same_bits(texts[1], tokens({7, 6, 7, 8, 9, 0})));
  CHECK(same_bits(texts[2], tokens({3, 3, 3, 4, 5, 6})));
  const auto refused = [&](const std::vector<at::Tensor>& prompts) {
    return message_of<Error>([&] { generate(counts, prompts, cache); });
  };
  CHECK(contains(refused({}), "there is no prompt"));
  CHECK(contains(refused({tokens({1}), at::ones({2})}), "prompt 1 is Float[2] on cpu"));
  CHECK(contains(refused({tokens({1}), tokens({})}), "prompt 1 is Long[0]"));
  CHECK(contains(refused({tokens({1}), at::Tensor()}), "prompt 1 is undefined; each must be"));
}

TEST_CASE("generate: invalid prompts, options and logits are errors") {
  const auto step = [](const at::Tensor& tokens) { return at::zeros({tokens.size(0)}); };
  const auto message_for = [&](const at::Tensor& prompt, const GenerateOptions& o = {}) {
    return message_of<Error>([&] { generate(step, prompt, o); });
  };
  const auto prompt = at::ones({2, 3}, at::kLong);
  CHECK(contains(message_for(at::ones({3}, at::kLong)), "(B, T)"));
  CHECK(contains(message_for(at::ones({2, 3})), "Long"));
  CHECK(contains(message_for(prompt, {.max_new_tokens = -1}), "max_new_tokens is -1"));
  CHECK(contains(message_for(prompt), "the model returned logits [2]"));
  const auto sampling = [](SamplingOptions o) {
    return message_of<Error>([&] { probabilities(at::zeros({1, 4}), o); });
  };
  CHECK(contains(sampling({.temperature = -1}), "temperature -1"));
  CHECK(contains(sampling({.top_k = -1}), "top_k -1"));
  CHECK(contains(sampling({.top_p = 0}), "top_p 0"));
  CHECK(contains(sampling({.top_p = std::nan("")}), "at most 1"));
}

TEST_CASE("sampling: frequencies are the probabilities") {
  // Pearson's chi-square statistic of 20,000 draws; 99.99% of all seeds stay below these bounds.
  const auto logits = at::tensor({1.0f, 0.5f, 0.0f, -0.5f, -1.0f, 2.0f});
  const std::pair<SamplingOptions, double> cases[] = {
      {{}, 25.7}, {{.temperature = 0.5}, 25.7}, {{.top_k = 3}, 18.4}, {{.top_p = 0.7}, 18.4}};
  for (const auto& [sampling, bound] : cases) {
    const auto all = logits.expand({20000, 6});
    const auto tokens =
        generate([&](const at::Tensor&) { return all; }, at::zeros({20000, 1}, at::kLong),
                 {.max_new_tokens = 1, .sampling = sampling, .seed = 11});
    const auto counted = at::bincount(tokens.select(1, 1), {}, 6).to(at::kDouble);
    const auto want = probabilities(logits, sampling).to(at::kDouble) * 20000;
    CHECK(counted.masked_select(want == 0).sum().item<double>() == 0);
    const auto square =
        ((counted - want).pow(2) / want).masked_select(want > 0).sum().item<double>();
    CHECK(square < bound);
  }
}

/// Computes the definition of the papers, by a loop over the sorted tokens of one row.
at::Tensor by_loop(const at::Tensor& logits, const SamplingOptions& o) {
  const auto scores = logits.to(at::kDouble) / o.temperature;
  const auto [sorted, order] = scores.sort(true, -1, true);
  const auto k = o.top_k > 0 ? std::min(o.top_k, scores.numel()) : scores.numel();
  const auto p = at::softmax(sorted.slice(0, 0, k), 0);
  auto kept = at::zeros_like(scores);
  double sum = 0;
  for (std::int64_t i = 0; i < k && (i == 0 || sum < o.top_p); ++i) {
    kept[order[i].item<std::int64_t>()] = p[i];
    sum += p[i].item<double>();
  }
  return kept / kept.sum();
}

TEST_CASE("sampling: top_k and top_p keep the sets of their papers") {
  torch::manual_seed(6);
  const auto logits = at::randn({8, 50}) * 2;
  for (const double temperature : {0.6, 1.0, 2.0})
    for (const std::int64_t top_k : {0, 1, 7, 50, 80})
      for (const double top_p : {1e-9, 0.3, 0.9, 1.0}) {
        const SamplingOptions o{temperature, top_k, top_p};
        const auto got = probabilities(logits, o);
        for (std::int64_t row = 0; row < 8; ++row) {
          const auto want = by_loop(logits[row], o);
          CHECK(same_bits(got[row] > 0, want > 0));
          CHECK(error(got[row], want) < 1e-5);
        }
      }
}

TEST_CASE("KVCache: it returns what was appended, and a full cache is an error") {
  KVCache cache({.layers = 2, .batch = 2, .heads = 3, .max_length = 6, .width = 4});
  const auto k = at::randn({2, 3, 5, 4}), v = at::randn({2, 3, 5, 4});
  for (const std::int64_t layer : {0, 1}) {
    cache.append(layer, k.slice(2, 0, 2) + layer, v.slice(2, 0, 2));
    const auto [keys, values] = cache.append(layer, k.slice(2, 2, 5) + layer, v.slice(2, 2, 5));
    CHECK(same_bits(keys, k + layer));
    CHECK(same_bits(values, v));
    CHECK(cache.length(layer) == 5);
  }
  const auto full = message_of<Error>([&] { cache.append(0, k.slice(2, 0, 2), v.slice(2, 0, 2)); });
  CHECK(contains(full, "2 positions after 5 are more than max_length 6"));
  CHECK(cache.length() == 5);
  cache.truncate(3);
  CHECK(same_bits(cache.append(1, k.slice(2, 3, 5) + 1, v.slice(2, 3, 5)).first, k + 1));
  CHECK(cache.length(0) == 3);
  const auto refused = [](auto&& f) { return message_of<Error>(f); };
  CHECK(contains(refused([&] { cache.append(2, k, v); }), "no layer 2 of 2"));
  CHECK(contains(refused([&] { cache.append(0, k, v.slice(2, 0, 1)); }), "must be (2, 3, T, 4)"));
  CHECK(contains(refused([&] { cache.append(0, k[0], v[0]); }), "must be (2, 3, T, 4)"));
  CHECK(contains(refused([] { KVCache none({.max_length = 4}); }), "width 0"));
  CHECK(
      contains(refused([&] { causal_at_end(k, k.slice(2, 0, 2)); }), "5 queries at the end of 2"));
}

}  // namespace test::generating
