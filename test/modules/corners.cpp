// Tests values at the corners of modules::Rotary, probabilities, generate and KVCache.
#include "attention_cases.hpp"

#include <ikebana/modules/generate.hpp>
#include <ikebana/modules/rotary.hpp>

namespace test::module_corners {

namespace modules = ikebana::modules;

TEST_CASE("corners: Rotary takes integer positions from 0, and no others") {
  const modules::Rotary rotary(8);
  const at::Tensor x = at::randn({2, 3, 4, 8}), positions = at::arange(4, at::kLong);
  const auto refused = [&](const at::Tensor& at) {
    return message_of<Error>([&] { rotary(x, at); });
  };
  for (const auto type : {at::kBFloat16, at::kHalf, at::kFloat, at::kDouble, at::kBool})
    CHECK(contains(refused(positions.to(type)), "must be integers"));
  for (const auto type : {at::kByte, at::kShort, at::kInt})
    CHECK(same_bits(rotary(x, positions.to(type)), rotary(x)));
  CHECK(contains(refused(positions - 1), "a position is -1; it must be 0 or more"));
  CHECK(contains(refused(at::Tensor()), "undefined"));
  CHECK(contains(message_of<Error>([&] { rotary(at::Tensor()); }), "undefined"));
  CHECK(contains(message_of<Error>([] { modules::Rotary(8, INFINITY); }), "finite"));
  CHECK(contains(message_of<Error>([] { modules::Rotary(8, NAN); }), "positive"));
  CHECK(rotary(x.narrow(2, 0, 0)).numel() == 0);
}

TEST_CASE("corners: Rotary under an autocast of any dtype has its input's bits and dtype") {
  const modules::Rotary rotary(8);
  for (const auto type : {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble})
    for (const auto around : {at::kHalf, at::kBFloat16}) {
      const at::Tensor x = at::randn({2, 3, 4, 8}).to(type), outside = rotary(x);
      const Autocast scope(around);
      CHECK(same_bits(rotary(x), outside));
    }
}

TEST_CASE("corners: probabilities at the smallest and largest temperatures") {
  const at::Tensor logits = at::tensor({1.0, 3.0, 2.0, -1e30, 3e38}, at::kFloat);
  for (const double temperature : {5e-324, 1e-300, 1e-45, 1e-30, 1e-3}) {
    const auto p = modules::probabilities(logits, {.temperature = temperature});
    CHECK(p.isfinite().all().item<bool>());
    CHECK(p[4].item<double>() == 1);
  }
  const auto even = modules::probabilities(logits.slice(0, 0, 3), {.temperature = INFINITY});
  CHECK((even - 1 / 3.0).abs().max().item<double>() < 1e-6);
  const auto all = modules::probabilities(logits, {.top_k = 100});
  CHECK(same_bits(all, modules::probabilities(logits)));
  const auto one = modules::probabilities(logits, {.top_p = 1e-300});
  CHECK(one[4].item<double>() == 1);
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{}, {3, 0}})
    CHECK(
        contains(message_of<Error>([&] { modules::probabilities(at::zeros(shape)); }), "(..., V)"));
  for (const modules::SamplingOptions o :
       {modules::SamplingOptions{.temperature = -1}, modules::SamplingOptions{.temperature = NAN},
        modules::SamplingOptions{.top_k = -1}, modules::SamplingOptions{.top_p = 0},
        modules::SamplingOptions{.top_p = NAN}})
    CHECK(contains(message_of<Error>([&] { modules::probabilities(logits, o); }), "sampling:"));
}

TEST_CASE("corners: generate chooses no token of logits that are not finite") {
  const auto prompt = at::zeros({2, 1}, at::kLong);
  for (const double temperature : {0.0, 1.0})
    for (const double bad : std::vector<double>{NAN, INFINITY}) {
      auto step = [&](const at::Tensor& tokens) {
        at::Tensor logits = at::zeros({2, tokens.size(1), 5});
        logits[1][-1][3] = bad;
        return logits;
      };
      const auto message = message_of<Error>(
          [&] { modules::generate(step, prompt, {.sampling = {.temperature = temperature}}); });
      CHECK(contains(message, "logits have NaN or infinity"));
    }
  const auto masked_all = [](const at::Tensor& t) {
    return at::full({2, t.size(1), 5}, -INFINITY);
  };
  CHECK(contains(message_of<Error>([&] { modules::generate(masked_all, prompt); }), "no token"));
  const auto nothing = [](const at::Tensor& t) { return at::zeros({2, t.size(1), 0}); };
  CHECK(contains(message_of<Error>([&] { modules::generate(nothing, prompt); }), "a token"));
}

TEST_CASE("corners: each of several stop tokens ends a row") {
  // Row r counts up from its prompt.
  auto step = [](const at::Tensor& tokens) {
    return at::one_hot(tokens.slice(1, -1) + 1, 12).to(at::kFloat);
  };
  const auto prompt = at::tensor({0, 3, 5}, at::kLong).view({3, 1});
  const auto run = [&](modules::GenerateOptions o) {
    o.max_new_tokens = 5, o.sampling.temperature = 0;
    return modules::generate(step, prompt, o);
  };
  const auto both = run({.stop_tokens = {5, 7}});
  CHECK(same_bits(
      both,
      at::tensor({0, 1, 2, 3, 4, 5, 3, 4, 5, 5, 5, 5, 5, 6, 7, 5, 5, 5}, at::kLong).view({3, 6})));
  const auto padded = run({.stop_tokens = {9, 5, 7}});
  const std::vector<std::int64_t> rows{0, 1, 2, 3, 4, 5, 3, 4, 5, 9, 9, 9, 5, 6, 7, 9, 9, 9};
  CHECK(same_bits(padded, at::tensor(rows, at::kLong).view({3, 6})));
}

TEST_CASE("corners: generate refuses a cache that holds a former text") {
  modules::KVCache cache({.layers = 2, .heads = 1, .max_length = 8, .width = 2});
  auto step = [](const at::Tensor& tokens, modules::KVCache& kept) {
    const auto x = tokens.to(at::kFloat).view({1, 1, -1, 1}).expand({1, 1, -1, 2});
    const auto keys = kept.append(0, x, x).first;
    kept.append(1, x, x);
    return keys.sum({1, 2}).mul(at::ones({1, 2}));
  };
  const auto prompt = at::ones({1, 2}, at::kLong);
  const modules::GenerateOptions o{.max_new_tokens = 2, .sampling = {.temperature = 0}};
  const auto first = modules::generate(step, prompt, cache, o);
  const auto message = message_of<Error>([&] { modules::generate(step, prompt, cache, o); });
  CHECK(contains(message, "the cache holds 3 positions of a former text"));
  CHECK(contains(message, "cache.clear()"));
  CHECK(cache.length() == 3);
  cache.clear();
  CHECK(same_bits(modules::generate(step, prompt, cache, o), first));
}

}  // namespace test::module_corners
